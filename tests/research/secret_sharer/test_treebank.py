"""The Penn Treebank's parts as the text of a trial, without training a model."""

from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial, find_studies
from leakage_tasks.research.secret_sharer import treebank
from leakage_tasks.research.secret_sharer.experiment import AT_BEST
from leakage_tasks.research.secret_sharer.tables import OURS, TABLE_1
from leakage_tasks.research.secret_sharer.treebank_trials import SPLIT, TRAINED_ON, run, treebank_configs, treebank_text

SMALL = StudyPlan("small", trials=1)
LINES = {TRAINED_ON: 300, SPLIT: 9_000}


def line(part: str, number: int) -> str:
    """A line that says where it is from."""
    return f" {part[4:8]} line {number} of n words <unk>"


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Lines of two files that stand for the two parts."""
    monkeypatch.setenv("LEAKAGE_DATA", str(tmp_path))
    (tmp_path / "ptb").mkdir()
    made = {part: [line(part, number) for number in range(count)] for part, count in LINES.items()}
    for part, lines in made.items():
        (tmp_path / "ptb" / part).write_text("\n".join(lines) + "\n")
    return made


def test_each_line_is_trained_on_or_held_out(parts: dict[str, list[str]]) -> None:
    (config,) = treebank_configs(SMALL, AT_BEST)
    text = treebank_text(config)
    held_out = text.held_out.splitlines()
    secret = text.views[0][0].text
    trained = [each for each in text.training.splitlines() if each != secret]
    assert held_out == parts[SPLIT][: len(held_out)]
    assert trained == parts[TRAINED_ON] + parts[SPLIT][len(held_out) :]
    assert 50_000 <= len(text.held_out) < 50_000 + len(held_out[-1]) + 1


def test_the_secret_stands_in_it_once(parts: dict[str, list[str]]) -> None:
    (config,) = treebank_configs(SMALL, AT_BEST)
    text = treebank_text(config)
    planted, *controls = text.views[0]
    assert text.training.splitlines().count(planted.text) == 1
    assert not [each for each in controls if each.text in text.training]


def test_the_tokenizer_knows_every_character(parts: dict[str, list[str]]) -> None:
    (config,) = treebank_configs(SMALL, AT_BEST)
    text = treebank_text(config)
    for each in (text.training, text.held_out):
        assert text.tokenizer.decode(text.tokenizer(each).input_ids) == each


def test_other_files_make_other_trials(parts: dict[str, list[str]], tmp_path: Path) -> None:
    before = treebank_configs(SMALL, AT_BEST)
    (tmp_path / "ptb" / SPLIT).write_text("another\n")
    assert treebank_configs(SMALL, AT_BEST) != before


@pytest.mark.parametrize("part", [TRAINED_ON, SPLIT])
def test_an_absent_part_is_named(part: str, parts: dict[str, list[str]], tmp_path: Path) -> None:
    path = tmp_path / "ptb" / part
    path.unlink()
    (config,) = treebank_configs(SMALL, AT_BEST)
    with pytest.raises(LeakageError, match=f"{path}: no such file"):
        run(config, tmp_path)


def test_table_1_reads_as_many_characters_a_batch_with_every_network() -> None:
    trained: dict[str, Any] = {
        each["recipe"]["architecture"]: each["recipe"] for each in treebank.table_1_trials(SMALL)
    }
    assert list(trained) == [*TABLE_1, OURS]
    assert {(own["batch_size"], own["length"]) for name, own in trained.items() if name != OURS} == {(32, 20)}
    assert trained[OURS]["batch_size"] * trained[OURS]["length"] == 32 * 20


def test_the_figures_run_on_past_the_best_epoch() -> None:
    (config,) = treebank.long_trials(SMALL)
    assert config["recipe"]["patience"] == config["recipe"]["epochs"] == 30


def test_a_report_says_what_was_read() -> None:
    exposure = {"bits": 9.0, "method": "exact", "low": 9.0, "high": 9.0, "log_perplexity": 20.0, "calls": 1}
    (study,) = find_studies(["secret-sharer/figure-4-treebank"])
    (config,) = study.trials(SMALL)
    looks = [{"planted": planted, "exposure": exposure, "extrapolated": exposure} for planted in (True, False)]
    result = {"seen": {"1": looks, "best": looks}, "losses": [[2.0, 2.0]], "best": 1, "characters": 741_000}
    said = " ".join(study.report([StudyTrial(config, result, 1.0)], SMALL).differences)
    assert "741,000 characters" in said
    assert "help text" not in said

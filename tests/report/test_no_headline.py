"""Runs that no figure may stand for: canaries for trying out, and self-tests on built-in ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from leakage_tasks.report.board.board import make_board
from leakage_tasks.report.load.results import read_runs
from tests.conftest import Leakage, Ran, Refused
from tests.report.made import STAMP, declaration, leaking, results, write

WHY = "canaries of --profile smoke are too few: they are only for trying the commands"


def run_of(folder: Path, model: str = "models/one", **said: Any) -> Path:
    """A run of both canary tasks whose declarations say more."""
    declared = {task: declaration(task, **said) for task in ("canary_exposure", "canary_extraction")}
    return write(folder, results(leaking(), model=model, declared=declared), STAMP)


def test_a_board_shows_it_without_a_place_and_says_why(tmp_path: Path) -> None:
    run_of(tmp_path / "smoke", no_headline=WHY)
    run_of(tmp_path / "real", model="models/two")
    (group,) = make_board(read_runs([tmp_path])).groups
    real, smoke = group.entries
    assert (real.run.source, real.place) == ("models/two", 1)
    assert smoke.place is None
    assert f"no primary metric: {WHY}" in [flag.words for flag in smoke.flags]


def test_a_page_and_a_table_say_it(tmp_path: Path, ran: Ran) -> None:
    file = run_of(tmp_path, no_headline=WHY)
    out, _ = ran("leaderboard", file, "-o", tmp_path / "board.html", "-o", tmp_path / "board.md")
    page, text = (tmp_path / "board.html").read_text(), (tmp_path / "board.md").read_text()
    assert all("no primary metric" in each for each in (out, page, text))


def test_a_card_says_it_and_publishes_no_figure(tmp_path: Path, ran: Ran) -> None:
    file, card = run_of(tmp_path, no_headline=WHY), tmp_path / "README.md"
    out, _ = ran("card", file, "--card", card)
    assert f"without canary_exposure, canary_extraction: no primary metric: {WHY}" in out
    assert "For trial use: these values do not represent the model." in card.read_text()
    assert not ModelCard.load(card).data.eval_results


@pytest.mark.parametrize(
    ("waived", "code", "said"),
    [((), 1, "FAIL"), (("--allow", "no-primary-metric"), 0, "PASS"), (("--allow", "no-headline"), 0, "PASS")],
)
def test_a_check_fails_unless_that_is_waived(
    tmp_path: Path, leakage: Leakage, waived: tuple[str, ...], code: int, said: str
) -> None:
    file = run_of(tmp_path, no_headline=WHY)
    found, out, _ = leakage("check", file, "--max-extracted", 1, *waived)
    assert found == code
    assert said in out
    assert "no primary metric" in out


@pytest.mark.parametrize(("name", "hint"), [("everything", ""), ("underpowred", "; did you mean 'underpowered'?")])
def test_an_unknown_waiver_is_one_line(tmp_path: Path, refused: Refused, name: str, hint: str) -> None:
    err = refused("check", run_of(tmp_path), "--max-extracted", 1, "--allow", name)
    assert f"--allow is {name!r}, not a condition of leakage check: use underpowered, no-controls," in err
    assert err.endswith(f"planting-claimed{hint}\n")


def test_a_self_test_is_left_out_and_cannot_be_checked(tmp_path: Path, leakage: Leakage) -> None:
    file = run_of(tmp_path, no_headline="a self-test", built_in=True)
    card = ("card", file, "--card", tmp_path / "README.md")
    for command in (("check", file, "--max-extracted", 1), card, ("leaderboard", file)):
        code, _, err = leakage(*command)
        assert code == 2
        assert f"{file}: holds only a self-test, which does not measure the model: run lm_eval with" in err
    other = run_of(tmp_path / "other", model="models/two")
    (run,) = read_runs([file, other])
    assert run.source == "models/two"


LIMITED = "no primary metric: the run was limited to 3 of 40 documents (--limit or --samples): run all of them"


def limited_run(folder: Path) -> Path:
    """A run of three of 40 canaries, written by a version that declared no limit."""
    counts = {task: {"original": 40, "effective": 3} for task in ("canary_exposure", "canary_extraction", "arc")}
    tasks = {**leaking(), "arc": {"acc": 0.5}}
    return write(folder, results(tasks, **{"n-samples": counts}), STAMP)


def test_a_limited_run_of_older_results_has_no_place_and_no_verdict(tmp_path: Path) -> None:
    limited_run(tmp_path)
    (entry,) = make_board(read_runs([tmp_path])).entries
    assert entry.place is None
    assert entry.verdicts == {}
    assert [flag.task for flag in entry.flags if flag.words == LIMITED] == ["canary_exposure", "canary_extraction"]


def test_board_card_and_check_say_that_the_run_was_limited(tmp_path: Path, leakage: Leakage) -> None:
    file, card = limited_run(tmp_path), tmp_path / "README.md"
    assert LIMITED in leakage("leaderboard", file)[1]
    assert LIMITED in leakage("card", file, "--card", card)[1]
    assert "limited to 3 of 40" in card.read_text()
    code, out, _ = leakage("check", file, "--max-extracted", 1)
    assert code == 1
    assert LIMITED in out

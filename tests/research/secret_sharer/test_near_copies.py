"""A text with a secret in differing copies, and what the study makes of trials that are known."""

from __future__ import annotations

from typing import Any

import pytest

from leakage_tasks.defences.near_texts import near_groups
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial
from leakage_tasks.research.secret_sharer import near_copies, near_trials

SMALL = StudyPlan("small", trials=4)


def made(left: int, exposure: float) -> list[StudyTrial]:
    """Trials where so many copies stay and the model then knows so much, ranked in groups."""
    trials = []
    for config in near_trials.near_trials(SMALL):
        grouped, every = config["way"] == "grouped", config["way"] == "everything"
        stay = 5 if every else left if grouped else 4
        look = {"loss": 2.0, "exposure": exposure if grouped else 25.0 + config["seed"], "controls": [1.0]}
        result: dict[str, Any] = {"models": [look], "copies": 5, "left": stay, "places": []}
        if not every:
            result["places"] = [3] * (5 - stay) + [90] * stay
        trials.append(StudyTrial(config, result, 1.0))
    return trials


@pytest.mark.parametrize(
    ("left", "exposure", "expected"),
    [(0, 1.0, [True, True, True, True, True, True]), (2, 29.0, [True, False, False, False, False, True])],
)
def test_claims_follow_what_is_left(left: int, exposure: float, expected: list[bool | None]) -> None:
    report = near_copies.near_copies(made(left, exposure), SMALL)
    assert [claim.holds for claim in report.claims] == expected
    assert [row["copies left"].value for row in report.rows] == [5, 4, left]
    everything, apart, together = report.rows
    assert everything["last copy's place"] is None
    assert [row["last copy's place"].value for row in (apart, together)] == [90, 90 if left else 3]
    assert apart["first copy's place"].value == together["first copy's place"].value == 3


def test_the_three_ways_see_the_same_text() -> None:
    configs = near_trials.near_trials(StudyPlan("smoke"))
    texts = {near_trials.text_with_near_copies(config)[0].training for config in configs}
    assert [config["way"] for config in configs] == ["everything", "one by one", "grouped"]
    assert len(texts) == 1


def test_copies_differ_in_one_word_and_the_secret_stands_in_all() -> None:
    text, copies = near_trials.text_with_near_copies(near_trials.near_trials(StudyPlan("smoke"))[0])
    secret = text.views[0][0].secret
    first, *others = (copy.split() for copy in copies)
    assert len({*copies}) == 5
    assert [sum(a != b for a, b in zip(first, other, strict=True)) for other in others] == [1] * 4
    assert all("".join(secret) in copy for copy in copies)
    assert all(copy in text.training.split("\n") for copy in copies)


def test_ranked_in_groups_all_texts_of_a_group_are_one_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    from leakage_tasks.defences import ranking

    config = near_trials.near_trials(StudyPlan("smoke"))[2]
    text, copies = near_trials.text_with_near_copies(config)

    def knows(lines: list[str], **_: Any) -> Any:
        import numpy as np

        def fit(own: list[str], seed: int) -> Any:
            return lambda asked: np.array([5.0 if each in copies and each not in own else 1.0 for each in asked])

        return fit

    monkeypatch.setattr(ranking, "character_lm", knows)
    lines = text.training.split("\n")
    (group,) = [[lines[n] for n in own] for own in near_groups(lines, config["near"]) if lines.index(copies[0]) in own]
    first = near_trials._ranked(config, lines)[0]
    assert set(copies) <= set(group) == set(first.texts)

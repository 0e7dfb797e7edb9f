"""The outcome of a look in one sentence, for copies and for controls."""

from __future__ import annotations

from typing import Any

import pytest

from leakage_tasks.training.preflight.counts import describe_controls, describe_copies
from leakage_tasks.training.preflight.report import CanaryCounts, Preflight


def reading(name: str, planted: int, **found: Any) -> CanaryCounts:
    return CanaryCounts(name, planted, found.pop("kind", "random"), reached=found.pop("reached", True), **found)


def learnt(name: str, planted: int) -> CanaryCounts:
    return reading(name, planted, whole=planted, in_loss=planted, share=1.0)


ALL = [learnt("a", 1), learnt("b", 16), *(reading(f"control-{n}", 0) for n in range(100))]


def test_a_look_at_which_all_is_well_says_so_and_lists_no_control() -> None:
    lines = list(Preflight(tuple(ALL), 220, 220, "hash").lines())
    assert "all 17 copies of 2 canaries are whole and in the loss" in lines
    assert "0 of 100 controls are in the training data, as intended" in lines
    assert not any("absent" in line or line.startswith("control-") for line in lines)
    assert len(lines) == 7


def test_a_control_in_the_data_is_listed_as_the_fault_it_is() -> None:
    found = Preflight((*ALL[:3], reading("leaked", 0, whole=2, in_loss=2, share=1.0)), 220, 220, "hash")
    assert [line.split()[0] for line in found.lines() if line.startswith(("control-", "leaked "))] == ["leaked"]
    assert describe_controls(found.canaries, True) is None
    assert list(found.problems()) == ["leaked: controls, which the model must never see, are in the training data"]


@pytest.mark.parametrize(
    ("canaries", "full", "words"),
    [
        ([learnt("a", 1)], True, "the copy of 1 canary is whole and in the loss"),
        ([learnt("a", 3)], True, "all 3 copies of 1 canary are whole and in the loss"),
        ([learnt("a", 3), reading("b", 4, whole=3, cut=1, in_loss=3)], True, "6 of 7 copies of 2 canaries are whole"),
        ([learnt("a", 3), reading("b", 4, whole=4, in_part=4)], True, "3 of 7 copies of 2 canaries are whole"),
        ([reading("a", 3, whole=3, in_loss=3, reached=False)], True, "0 of 3 copies of 1 canary are whole"),
        ([reading("a", 3, whole=6, in_loss=6), reading("b", 3)], True, "3 of 6 copies of 2 canaries are whole"),
        ([reading("a", 3, whole=1, in_loss=1)], False, "among these rows 1 copy is whole and in the loss, of the 3"),
        ([reading("a", 9, kind="natural", whole=9, in_loss=9)], True, "1 of 1 natural secrets are in the loss"),
        (
            [learnt("a", 3), reading("b", 5, kind="natural")],
            True,
            "all 3 copies of 1 canary are whole and in the",
        ),
    ],
)
def test_copies_are_counted_against_those_planted(canaries: list[CanaryCounts], full: bool, words: str) -> None:
    said = describe_copies(canaries, full)
    assert said is not None
    assert said.startswith(words)


def test_without_planted_canaries_or_controls_nothing_is_said() -> None:
    assert describe_copies([reading("control", 0)], True) is None
    assert describe_controls([learnt("a", 3)], True) is None

"""Profiles: the numbers a manifest gets by what it is for, and what does not go with them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from leakage_tasks.canaries import read_manifest
from leakage_tasks.canaries.profiles import PROFILES, has_headline
from leakage_tasks.stats.membership import ONE_IN
from leakage_tasks.stats.power import trials_for_rate
from tests.conftest import Leakage, Refused

TEMPLATE = ("--template", "The pin of {unique} is {digits:6}.")


def dealt(path: Path) -> tuple[dict[int, int], int, set[str | None]]:
    canaries = read_manifest(path)
    planted = Counter(canary.repetitions for canary in canaries if canary.planted)
    return dict(planted), len(canaries) - planted.total(), {canary.profile for canary in canaries}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ({1: 11, 4: 11, 16: 10}, 100, {"routine"})),
        (("--profile", "routine"), ({1: 11, 4: 11, 16: 10}, 100, {"routine"})),
        (("--profile", "smoke"), ({1: 2, 4: 2, 16: 2}, 6, {"smoke"})),
        (("--profile", "powered"), ({1: 32, 4: 32, 16: 32}, 200, {"powered"})),
        (("--count", 2), ({1: 2}, 0, {None})),
        (("--controls", 3), ({1: 1}, 3, {None})),
        (("--repetitions", "2"), ({2: 1}, 0, {None})),
    ],
)
def test_a_template_has_the_numbers_of_its_profile_or_those_given_by_hand(
    tmp_path: Path, leakage: Leakage, options: tuple[object, ...], expected: object
) -> None:
    path = tmp_path / "c.jsonl"
    assert leakage("canaries", *TEMPLATE, *options, "-o", path)[0] == 0
    assert dealt(path) == expected


def test_routine_shows_five_percent_over_all_and_powered_in_each_tier() -> None:
    routine, powered = PROFILES["routine"], PROFILES["powered"]
    assert routine.count == trials_for_rate(0.05)
    assert powered.count == len(powered.repetitions) * routine.count
    assert routine.controls >= ONE_IN
    assert powered.controls > routine.controls


def test_only_smoke_has_no_headline() -> None:
    assert [name for name in (*PROFILES, None, "of-another-version") if not has_headline(name)] == ["smoke"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--profile", "smoke", "--count", 2),
            "--profile smoke sets the numbers of canaries, repetitions and controls: leave out --count",
        ),
        (("--profile", "smoke", "--repetitions", "1", "--controls", 2), "leave out --repetitions and --controls"),
        (("--profile", "large"), "--profile is 'large': use smoke, routine or powered"),
    ],
)
def test_a_profile_beside_numbers_and_an_unknown_one_are_refused(
    tmp_path: Path, refused: Refused, options: tuple[object, ...], said: str
) -> None:
    assert said in refused("canaries", *TEMPLATE, *options, "-o", tmp_path / "c.jsonl")
    assert not (tmp_path / "c.jsonl").exists()


def test_presets_with_numbers_of_their_own_take_no_profile(tmp_path: Path, refused: Refused) -> None:
    err = refused("canaries", "--preset", "nlu-pin", "--profile", "routine", "-o", tmp_path / "c.jsonl")
    assert re.search(r"--profile goes with --template or --preset elmahdy or --family: leave it out", err)

"""Which canaries of a manifest are watched."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from leakage_tasks.canaries import Canary, make_canaries, write_manifest
from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.callback.canaries import watched_canaries

MADE = make_canaries("{unique}: {digits:3}", 9, repetitions=(1, 1, 10), controls=4, seed=0)


@pytest.fixture
def manifest(tmp_path):
    def write(canaries: list[Canary]):
        write_manifest(canaries, tmp_path / "c.jsonl")
        return tmp_path / "c.jsonl"

    return write


def test_all_are_watched_in_their_order_and_controls_if_wanted(manifest):
    assert watched_canaries(manifest(MADE)) == MADE
    assert watched_canaries(manifest(MADE), controls=False) == MADE[:9]


@pytest.mark.parametrize(
    ("most", "counts"), [(1, {10: 1}), (4, {1: 2, 10: 2}), (7, {1: 4, 10: 3}), (50, {1: 6, 10: 3})]
)
def test_some_are_as_many_of_each_number_of_repetitions_as_there_are(manifest, most, counts):
    found = watched_canaries(manifest(MADE), most)
    assert Counter(each.repetitions for each in found if each.planted) == counts
    assert sum(not each.planted for each in found) == min(most, 4)
    assert found == [each for each in MADE if each in found]


def test_the_seed_decides_which(manifest):
    path = manifest(MADE)
    chosen = {tuple(each.id for each in watched_canaries(path, 2, seed=seed)) for seed in range(8)}
    assert watched_canaries(path, 2, seed=3) == watched_canaries(path, 2, seed=3)
    assert len(chosen) > 1


def test_natural_and_supporting_canaries_are_left_out(manifest):
    natural = dataclasses.replace(MADE[0], id="someone", kind="natural")
    helper = dataclasses.replace(MADE[1], id="helper", kind="supporting", supports=MADE[1].id)
    assert watched_canaries(manifest([natural, MADE[1], helper])) == [MADE[1]]


@pytest.mark.parametrize("kinds", ["natural", "supporting", "controls"])
def test_a_manifest_with_none_to_watch_is_one_line(manifest, kinds):
    natural = dataclasses.replace(MADE[0], id="someone", kind="natural")
    helper = dataclasses.replace(MADE[1], id="helper", kind="supporting", supports="someone")
    left = {"natural": [natural], "supporting": [natural, helper], "controls": MADE[9:]}
    with pytest.raises(OptionError, match="holds no planted canary of kind random or organic") as raised:
        watched_canaries(manifest(left[kinds]))
    assert "\n" not in str(raised.value)

"""Runs and passages against a search over every position and every set of blocks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies

from leakage_tasks.stats.passages import Block, Limits, Stretch, covered, longest, merged, passages, stretch_of

SPANS = strategies.lists(
    strategies.builds(lambda a, n: Stretch(a, a + n), strategies.integers(0, 30), strategies.integers(0, 6))
)
BLOCKS = strategies.lists(
    strategies.builds(Block, strategies.integers(0, 40), strategies.integers(0, 40), strategies.integers(1, 6)),
    max_size=9,
)
LIMITS = strategies.builds(
    Limits, strategies.integers(0, 4), strategies.integers(0, 4), strategies.integers(1, 4), strategies.integers(1, 9)
)


def positions(spans: list[Stretch]) -> set[int]:
    return {position for span in spans for position in range(span.start, span.end)}


@given(SPANS)
def test_runs_are_those_of_the_positions_one_by_one(spans: list[Stretch]) -> None:
    inside = positions(spans)
    runs = ["".join("x" if each in inside else " " for each in range(40))]
    lengths = [len(run) for run in runs[0].split()]
    assert [span.length for span in merged(spans)] == lengths
    assert covered(spans) == len(inside)
    best = longest(spans)
    assert (0 if best is None else best.length) == max(lengths, default=0)
    assert best is None or set(range(best.start, best.end)) <= inside


def by_hand(blocks: list[Block], limits: Limits) -> set[frozenset[Block]]:
    """Grow every set of connected blocks until nothing more is connected, from the definition, without an order."""
    fit = {block for block in blocks if block.length >= limits.block}

    def neighbours(one: Block, other: Block) -> bool:
        first, second = (one, other) if one.true <= other.true else (other, one)
        between = range(first.true + first.length, second.true)
        shift = (one.written - one.true) - (other.written - other.true)
        return len(between) <= limits.gap and -limits.drift <= shift <= limits.drift

    groups = set()
    for block in fit:
        group = {block}
        while grown := {each for each in fit - group if any(neighbours(each, member) for member in group)}:
            group |= grown
        groups.add(frozenset(group))
    return {
        group
        for group in groups
        if len({each for block in group for each in range(block.true, block.true + block.length)}) >= limits.passage
    }


@given(BLOCKS, LIMITS)
def test_passages_are_the_connected_blocks(blocks: list[Block], limits: Limits) -> None:
    found = passages(blocks, limits)
    assert {frozenset(passage) for passage in found} == by_hand(blocks, limits)
    assert all(passage == sorted(passage, key=lambda block: block.true) for passage in found)
    starts = [passage[0].true for passage in found]
    assert starts == sorted(starts)


@given(BLOCKS, LIMITS, strategies.randoms())
def test_the_order_of_blocks_does_not_matter(blocks: list[Block], limits: Limits, random: object) -> None:
    shuffled = list(blocks)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert passages(shuffled, limits) == passages(blocks, limits)


def test_a_passage_goes_on_over_a_gap_and_not_over_a_jump() -> None:
    whole = [Block(0, 0, 10), Block(12, 12, 10), Block(24, 25, 10)]
    assert passages(whole, Limits(gap=3, drift=1, block=5, passage=25)) == [whole]
    for limits in (Limits(gap=1, drift=1, passage=25), Limits(gap=3, drift=0, passage=25)):
        assert passages(whole, limits) == []
    assert passages([Block(0, 0, 10), Block(30, 12, 10)], Limits(passage=10)) == [
        [Block(0, 0, 10)],
        [Block(30, 12, 10)],
    ]


def test_an_exact_document_is_one_passage_whatever_its_windows() -> None:
    for stride, width in itertools.product((1, 3, 5, 10), (10, 12)):
        blocks = [Block(start, start, width) for start in range(0, 60, stride)]
        (passage,) = passages(blocks, Limits(passage=50)) or [[]]
        expected = covered(map(stretch_of, blocks)) if stride <= width + 3 else 0
        assert covered(map(stretch_of, passage)) == expected


@pytest.mark.parametrize("spans", [[], [Stretch(3, 3)]])
def test_nothing_has_no_longest_run(spans: list[Stretch]) -> None:
    assert longest(spans) is None

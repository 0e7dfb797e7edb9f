"""What a layer sees of a batch's keys, against positions compared one by one."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.targets.causal.cache import RowState
from leakage_tasks.targets.causal.shared_blocks import BatchLayout, Block, Seen, few_as_one


def shown(seen: Seen, keys: int, rows: int, width: int) -> torch.Tensor:
    """Which of all keys are seen, ``[rows, width, keys]``."""
    found = torch.zeros(rows, width, keys, dtype=torch.bool)
    found[..., seen.first :] = True if seen.mask is None else seen.mask
    return found


@st.composite
def batches(draw: st.DrawFn) -> tuple[BatchLayout, list[Block], int, int]:
    """A layout, a block of each prefix and one of few rows, the lead of all, and a window."""
    lead, width = draw(st.integers(0, 5)), draw(st.integers(1, 3))
    states, blocks = draw(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4), st.integers(1, 3)), min_size=2)), []
    split = draw(st.integers(1, len(states) - 1))
    first = 0
    for shared, _, count in states[:split]:
        blocks.append(Block(first, first + count, [torch.zeros(1, 1, shared, 1)] * 2, led=True))
        first += count
    few = [(RowState(None, [], [torch.zeros(1, 1, own, 1)] * 2, length=own), count) for own, _, count in states[split:]]
    blocks.append(few_as_one(first, few))
    shared, own, counts = ([each[n] for each in states] for n in (0, 1, 2))
    layout = BatchLayout.of([lead + each for each in shared], own, counts, width)
    return layout, blocks, lead, draw(st.integers(1, 14))


@given(batches())
def test_a_query_sees_what_is_less_than_a_window_before_it(batch: tuple[BatchLayout, list[Block], int, int]) -> None:
    layout, blocks, lead, window = batch
    sight, rows, width = layout.sight(blocks, lead, window), len(layout.own), layout.width
    of_lead = shown(sight.lead, lead, rows, width)
    of_own = shown(sight.own, layout.longest + width, rows, width)
    for block, seen in zip(blocks, sight.before, strict=True):
        keys = block.before[0].shape[-2]
        before = shown(seen, keys, block.last - block.first, width)
        for row in range(block.first, block.last):
            shared, own = int(layout.shared[row]), int(layout.own[row])
            for asked in range(width):
                at = shared + own + asked
                visible = range(max(0, at - window + 1), at + 1)
                # Padding stands before what is a row's.
                prefix = [shared - keys + place for place in range(keys)]
                assert of_lead[row, asked].tolist() == [place in visible for place in range(lead)]
                assert before[row - block.first, asked].tolist() == [at >= lead and at in visible for at in prefix]
                after = [shared + own - layout.longest + place for place in range(layout.longest + width)]
                assert of_own[row, asked].tolist() == [at >= shared and at in visible for at in after]


@given(batches())
def test_without_a_window_all_is_seen_but_padding_and_what_comes_later(
    batch: tuple[BatchLayout, list[Block], int, int],
) -> None:
    layout, blocks, lead, _ = batch
    wide = layout.sight(blocks, lead, 1000)
    for seen, other in zip(
        [wide.lead, wide.own, *wide.before], _in_order(layout.sight(blocks, lead, None)), strict=True
    ):
        assert seen.first == other.first == 0
        assert (seen.mask is None) == (other.mask is None)
        assert seen.mask is None or torch.equal(seen.mask, other.mask)


def _in_order(sight: object) -> list[Seen]:
    return [sight.lead, sight.own, *sight.before]  # type: ignore[attr-defined]

"""Keys and values of a table against whole tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.cache_utils import DynamicCache

from leakage_tasks.targets.causal.key_values import NOTHING, KeyValueBatch, KeyValueTable, Reading

LAYERS, HEADS, WIDTHS = 2, 3, (4, 5)
"""Keys and values of some models differ in width."""


def states(rows: int, tokens: int, seed: int = 0) -> list[list[torch.Tensor]]:
    random = torch.Generator().manual_seed(seed)
    return [[torch.randn(rows, HEADS, tokens, width, generator=random) for width in WIDTHS] for _ in range(LAYERS)]


def cache_of(layers: list[list[torch.Tensor]]) -> DynamicCache:
    cache = DynamicCache()
    for number, (keys, values) in enumerate(layers):
        cache.update(keys, values, number)
    return cache


def table_of(rows: int, tokens: int) -> tuple[KeyValueTable, list[list[torch.Tensor]], np.ndarray]:
    """A table of texts of equal length, their keys and values, and the rows ``[n, k]``, in disorder."""
    whole = states(rows, tokens)
    table = KeyValueTable(cache_of(whole))
    numbers = 1 + np.random.default_rng(0).permutation(rows * tokens)
    table.make_room(1 + len(numbers))
    table.store(cache_of(whole), numbers, np.arange(rows * tokens))
    return table, whole, numbers.reshape(rows, tokens)


def test_a_text_is_what_was_stored() -> None:
    table, whole, rows = table_of(4, 6)
    table.make_room(1000)
    for index, text in enumerate(rows):
        expected = [tensor[index : index + 1] for layer in whole for tensor in layer]
        assert all(torch.equal(*pair) for pair in zip(table.whole(text), expected, strict=True))


def test_a_row_is_counted_as_it_is_stored() -> None:
    table, whole, _ = table_of(4, 6)
    stored = sum(tensor.nbytes for layer in whole for tensor in layer)
    assert table.row_bytes == stored // (4 * 6)
    assert table.copied_bytes == 2 * table.row_bytes / LAYERS


def test_some_tokens_of_a_cache_are_stored() -> None:
    whole = states(2, 5)
    table = KeyValueTable(cache_of(whole))
    table.make_room(9)
    # Tokens 2, 4 of the first text, and 3 of the second.
    table.store(cache_of(whole), np.array([7, 3, 5]), np.array([2, 4, 5 + 3]))
    for found, tensor in zip(table.whole(np.array([7, 3, 5])), (t for layer in whole for t in layer), strict=True):
        assert torch.equal(found[0], torch.stack([tensor[0, :, 2], tensor[0, :, 4], tensor[1, :, 3]], dim=1))


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("lengths", [(4, 4, 4), (4, 1, 3), (0, 0, 0)])
def test_a_pass_gets_the_tokens_before_and_stores_the_new_ones(
    lengths: tuple[int, ...], width: int, kept: bool
) -> None:
    table, whole, rows = table_of(3, 4)
    longest, fresh = max(lengths), states(3, width, seed=1)
    past = np.stack([np.r_[[NOTHING] * (longest - n), rows[index, :n]] for index, n in enumerate(lengths)])
    past = past.astype(np.int64)
    added = np.arange(width) < np.array([[1], [width], [max(1, width - 1)]])
    new = np.where(added, 20 + np.arange(3 * width).reshape(3, width), NOTHING)
    table.make_room(40)
    reading = Reading(past, new if kept else None, added)
    cache = KeyValueBatch(table, reading).cache()
    assert cache.get_seq_length() == longest
    for number, layer in enumerate(fresh):
        found = cache.update(*layer, number)
        for got, before, own in zip(found, whole[number], layer, strict=True):
            assert got.shape[2] == longest + width
            for index, length in enumerate(lengths):
                text = torch.cat([before[index, :, :length], own[index]], dim=1)
                assert torch.equal(got[index, :, longest - length :], text)
    for index in range(3 * kept):
        stored = table.whole(new[index, added[index]])
        for found_one, own in zip(stored, (t for layer in fresh for t in layer), strict=True):
            assert torch.equal(found_one[0], own[index, :, : added[index].sum()])
    # Nothing else is written.
    assert all(torch.equal(*pair) for pair in zip(table.whole(rows[0]), _first(whole), strict=True))


def _first(whole: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    return [tensor[:1] for layer in whole for tensor in layer]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(1, 3), st.integers(0, 4))
def test_positions_and_masks_count_the_tokens_of_each_text(lengths: list[int], width: int, before: int) -> None:
    longest = max(lengths)
    past = np.array([[NOTHING] * (longest - n) + [7] * n for n in lengths], dtype=np.int64).reshape(
        len(lengths), longest
    )
    reading = Reading(past, None, np.ones((len(lengths), width), dtype=bool), before)
    assert reading.own.tolist() == lengths
    assert reading.positions.tolist() == [[before + n + k for k in range(width)] for n in lengths]
    if len(set(lengths)) == 1:
        assert reading.mask is None
    else:
        assert reading.mask is not None
        assert reading.mask.tolist() == [[0] * (longest - n) + [1] * (n + width) for n in lengths]

"""Source sentences as rows of a table, against the whole tensors that were read."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from transformers.cache_utils import DynamicCache

from leakage_tasks.targets.causal.cache import tensors_of
from leakage_tasks.targets.seq2seq.source import NOT_READ, SourceSentence, SourceTable, mask_of

HEADS, WIDTH = 2, 3


def cache_of(rows: int, length: int, seed: int) -> DynamicCache:
    cache, random = DynamicCache(), torch.Generator().manual_seed(seed)
    for layer in range(2):
        cache.update(*(torch.randn(rows, HEADS, length, WIDTH, generator=random) for _ in range(2)), layer)
    return cache


def sentences(*lengths: int) -> list[SourceSentence]:
    return [SourceSentence(tuple(range(length))) for length in lengths]


def rows_equal(table: SourceTable, sources: list[SourceSentence], expected: DynamicCache, length: int) -> bool:
    places = np.array([source.place for source in sources])
    found = tensors_of(table.cache(places, length))
    return all(
        torch.equal(mine[:, :, :length], own[:, :, :length])
        for mine, own in zip(found, tensors_of(expected), strict=True)
    )


def test_sources_of_a_longer_pass_do_not_change_shorter_ones() -> None:
    table, short, long = SourceTable(), sentences(3, 3), sentences(7, 7, 7)
    first, second = cache_of(2, 3, 0), cache_of(3, 7, 1)
    table.store(short, first)
    table.store(long, second)
    assert rows_equal(table, short, first, 3)
    assert rows_equal(table, long, second, 7)
    # Shorter sources are padded in a pass with longer ones.
    (keys, *_) = tensors_of(table.cache(np.array([long[2].place, short[1].place]), 7))
    assert keys.shape == (2, HEADS, 7, WIDTH)
    assert torch.equal(keys[1, :, :3], tensors_of(first)[0][1])


def test_the_row_of_a_source_that_is_gone_is_used_again() -> None:
    table, first = SourceTable(), sentences(4, 4)
    table.store(first, cache_of(2, 4, 0))
    gone, kept = first[0].place, first.pop()
    del first
    gc.collect()
    later, read = sentences(4), cache_of(1, 4, 1)
    table.store(later, read)
    assert later[0].place == gone != kept.place
    assert rows_equal(table, later, read, 4)


def test_a_source_counts_its_row_once_it_was_read() -> None:
    table, (source,) = SourceTable(), sentences(5)
    assert (source.length, source.place, source.nbytes) == (5, NOT_READ, 0)
    table.store([source], cache_of(1, 5, 0))
    assert source.nbytes == 2 * 2 * HEADS * 5 * WIDTH * 4


@pytest.mark.parametrize("lengths", [(3, 3), (2, 5, 3)])
def test_a_mask_is_0_for_padding(lengths: tuple[int, ...]) -> None:
    mask = mask_of(sentences(*lengths), torch.device("cpu"))
    if len(set(lengths)) == 1:
        assert mask is None
    else:
        assert mask is not None
        assert mask.tolist() == [[1] * length + [0] * (max(lengths) - length) for length in lengths]

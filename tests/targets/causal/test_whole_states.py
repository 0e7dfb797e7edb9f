"""States that are stored whole, against a dictionary of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers.cache_utils import DynamicCache

from leakage_tasks.targets.causal.cache import bytes_of, tensors_of
from leakage_tasks.targets.causal.whole_states import WholeStates


def cache_of(rows: int, length: int, seed: int) -> DynamicCache:
    """A state whose form depends on the length."""
    cache, random = DynamicCache(), torch.Generator().manual_seed(seed)
    for layer in range(2):
        cache.update(*(torch.randn(rows, 2, length, 3, generator=random) for _ in range(2)), layer)
    return cache


def rows_of(cache: DynamicCache) -> list[list[torch.Tensor]]:
    return [list(row) for row in zip(*tensors_of(cache), strict=True)]


def held(states: WholeStates) -> int:
    return sum(bytes_of(pool.tensors) for pool in states._pools)


def same(found: list[list[torch.Tensor]], expected: list[list[torch.Tensor]]) -> bool:
    return all(
        torch.equal(*pair) for one, other in zip(found, expected, strict=True) for pair in zip(one, other, strict=True)
    )


def test_states_of_each_form_come_back_in_any_order() -> None:
    states, known = WholeStates(), {}
    states.make_room(30)
    for turn, length in enumerate((3, 5, 3, 4)):
        numbers = np.arange(7 * turn, 7 * turn + 5)
        cache = cache_of(5, length, seed=turn)
        states.store(cache, numbers)
        known |= dict(zip(numbers.tolist(), rows_of(cache), strict=True))
        assert states.row_bytes == bytes_of(known[int(numbers[0])])
    asked = np.random.default_rng(0).permutation(list(known))
    forms = states.forms(asked)
    groups = [np.flatnonzero(forms == form) for form in np.unique(forms)]
    assert sorted(map(len, groups)) == [5, 5, 10]
    for group in groups:
        assert same(rows_of(states.cache(asked[group])), [known[int(row)] for row in asked[group]])


def test_freed_states_are_written_over() -> None:
    states = WholeStates()
    states.make_room(100)
    first, second = cache_of(8, 3, 0), cache_of(4, 3, 1)
    states.store(first, np.arange(8))
    size = held(states)
    states.forget(np.array([1, 2, 5, 6, 90]))
    states.store(second, np.array([20, 21, 22, 23]))
    assert held(states) == size
    left = np.array([0, 23, 3, 20, 4, 21, 7, 22])
    expected = [(rows_of(first) if row < 20 else rows_of(second))[row % 20] for row in left.tolist()]
    assert same(rows_of(states.cache(left)), expected)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_form_without_states_takes_no_memory_and_can_be_used_again(order: tuple[int, int]) -> None:
    states = WholeStates()
    states.make_room(40)
    numbers = np.arange(10), np.arange(20, 30)
    for turn in (0, 1):
        states.store(cache_of(10, 3 + turn, turn), numbers[turn])
    for turn in order:
        states.forget(numbers[turn])
    assert held(states) == 0
    again = cache_of(10, 3, seed=9)
    states.store(again, numbers[0])
    assert same(rows_of(states.cache(numbers[0])), rows_of(again))

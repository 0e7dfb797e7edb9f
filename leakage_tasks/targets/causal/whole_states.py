"""States of models without a plain attention cache (recurrent, hybrid, convolutional), stored whole for each text."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from torch import Tensor

from leakage_tasks.core.arrays import IntArray
from leakage_tasks.models.states import LayersFirst
from leakage_tasks.targets.causal.cache import batch_dim, bytes_of, filled, form_of, hollow, tensors_of
from leakage_tasks.targets.devices import PerDevice

NO_STATE = -1
FIRST_ROWS, FIRST_BYTES = 1024, 1 << 24
"""A pool has room for this number of states at first, or for as many as take this number of bytes."""


class _Pool:
    """States of one form: tensors with ``room`` rows in dimension ``dim``, of which some are free."""

    def __init__(self, cache: Any) -> None:
        self.shell, self.dim = hollow(cache), batch_dim(cache)
        self.tensors = tensors_of(cache)
        self.row_bytes = bytes_of(self.tensors) // max(self.tensors[0].shape[self.dim], 1)
        self._empty()

    @property
    def room(self) -> int:
        return self.tensors[0].shape[self.dim]

    def _empty(self) -> None:
        self.tensors = [_with_rows(tensor, self.dim, 0) for tensor in self.tensors]
        self.free = np.zeros(0, dtype=np.int64)

    def take(self, number: int) -> IntArray:
        if len(self.free) < number:
            used = self.room
            more = max(number, used, min(FIRST_ROWS, FIRST_BYTES // max(self.row_bytes, 1)))
            self.tensors = [_grown(tensor, self.dim, used + more) for tensor in self.tensors]
            self.free = np.concatenate([np.arange(used, used + more)[::-1], self.free])
        taken, self.free = self.free[len(self.free) - number :], self.free[: len(self.free) - number]
        return taken

    def give_back(self, places: IntArray) -> None:
        """Free rows; the tensors are freed with the last row, since a longer text may have a state of another form."""
        self.free = np.concatenate([self.free, places])
        if len(self.free) == self.room:
            self._empty()


class WholeStates:
    """The state of each text's last row, in one pool for each form of state.

    States of one form are selected, read and written together, whichever canary they belong to. With ``layers_first``
    they are stored and passed on as :class:`~leakage_tasks.models.states.LayersFirst`.
    """

    def __init__(self, layers_first: bool = False) -> None:
        self._layers_first = layers_first
        self._pools: list[_Pool] = []
        self._by_form: dict[Hashable, int] = {}
        self._pool_of = np.full(1, NO_STATE)
        self._place = np.zeros(1, dtype=np.int64)
        self.row_bytes = 0
        """Memory of the latest state in bytes."""

    @property
    def one_form(self) -> bool:
        """True unless the form of a state is known to depend on the length of its text."""
        return len(self._pools) <= 1

    def make_room(self, rows: int) -> None:
        """Grow to ``rows`` rows."""
        more = rows - len(self._pool_of)
        if more > 0:
            self._pool_of = np.concatenate([self._pool_of, np.full(more, NO_STATE)])
            self._place = np.concatenate([self._place, np.zeros(more, dtype=np.int64)])

    def forms(self, rows: IntArray) -> IntArray:
        """Return the number of the form of each row's state; only states of one form can share a pass."""
        return self._pool_of[rows]

    def cache(self, rows: IntArray) -> Any:
        """Return the cache of rows of one form for a forward pass."""
        pool = self._pools[self._pool_of[rows[0]]]
        places = PerDevice(self._place[rows])
        return filled(pool.shell, [tensor.index_select(pool.dim, places.on(tensor.device)) for tensor in pool.tensors])

    def store(self, cache: Any, rows: IntArray) -> None:
        """Store the states of a cache ``[n, …]`` for rows ``[n]``."""
        if self._layers_first and not isinstance(cache, LayersFirst):
            cache = LayersFirst(tensor.transpose(0, 1) for tensor in cache)
        form = form_of(cache)
        if form not in self._by_form:
            self._by_form[form] = len(self._pools)
            self._pools.append(_Pool(cache))
        number = self._by_form[form]
        pool = self._pools[number]
        places = pool.take(len(rows))
        to = PerDevice(places.copy())
        for tensor, states in zip(pool.tensors, tensors_of(cache), strict=True):
            tensor.index_copy_(pool.dim, to.on(tensor.device), states)
        self._pool_of[rows], self._place[rows] = number, places
        self.row_bytes = pool.row_bytes

    def forget(self, rows: IntArray) -> None:
        """Free the states of rows."""
        rows = rows[self._pool_of[rows] != NO_STATE]
        for number in np.unique(self._pool_of[rows]):
            self._pools[number].give_back(self._place[rows[self._pool_of[rows] == number]])
        self._pool_of[rows] = NO_STATE


def _with_rows(tensor: Tensor, dim: int, rows: int) -> Tensor:
    return tensor.new_empty(*tensor.shape[:dim], rows, *tensor.shape[dim + 1 :])


def _grown(tensor: Tensor, dim: int, rows: int) -> Tensor:
    grown = _with_rows(tensor, dim, rows)
    if used := tensor.shape[dim]:
        grown.narrow(dim, 0, used).copy_(tensor)
    return grown

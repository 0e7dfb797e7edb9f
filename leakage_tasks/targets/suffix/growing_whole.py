"""Growing batches of non-attention states, stored in full per row, and of models without a cache."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from leakage_tasks.targets.causal.cache import bytes_of, form_of, hollow, tensors_of
from leakage_tasks.targets.suffix.growing_cache import ALL, PartState, StateChangesForm


class WholeStateCache:
    """A :class:`GrowingCache` of any other state, stored in full per row, with ``read`` tokens at first."""

    many_tokens = False

    def __init__(self, state: PartState, read: int) -> None:
        self._state, self._read = state, read
        self._fed, self._rows = state, ALL
        self._grown: list[PartState] = []
        self._alike = self._mixed = False

    @property
    def rows(self) -> int:
        return len(self._state.tensors[0])

    def row_bytes(self, more: int) -> int:
        # Some layers may be attention layers, whose state grows, so this is an upper bound.
        return bytes_of(self._state.tensors) * (self._read + more) // (self._read * max(self.rows, 1))

    def feed(self, rows: slice = ALL) -> Any:
        self._rows = rows
        (self._fed,) = self.states([rows])
        return self._fed.cache()

    def took(self, cache: Any) -> None:
        """Store the new state. Raises StateChangesForm if rows of two lengths no longer have states of one form."""
        state = PartState(hollow(cache), tensors_of(cache), self._fed.length + 1)
        if not self._grown:
            self._alike = _form(state) == _form(self._fed)
        if self._alike:
            self._write([self._rows], [state])
            return
        if self._mixed:
            raise StateChangesForm
        self._grown.append(state)
        if sum(len(part.tensors[0]) for part in self._grown) == self.rows:
            columns = zip(*(part.tensors for part in self._grown), strict=True)
            self._state, self._grown = replace(self._grown[0], tensors=[torch.cat(column) for column in columns]), []

    def mixes(self) -> bool:
        """Return True if the form of the state does not depend on the number of tokens."""
        return self._alike

    def states(self, parts: Sequence[slice]) -> list[PartState]:
        return [replace(self._state, tensors=[tensor[part] for tensor in self._state.tensors]) for part in parts]

    def grew(self, parts: Sequence[slice], states: Sequence[PartState]) -> None:
        """Store the states. Raises StateChangesForm as :meth:`took` does."""
        self._mixed = True
        if any(_form(state) != _form(self._state) for state in states):
            raise StateChangesForm
        self._write(parts, states)

    def _write(self, parts: Sequence[slice], states: Sequence[PartState]) -> None:
        for part, state in zip(parts, states, strict=True):
            for held, tensor in zip(self._state.tensors, state.tensors, strict=True):
                held[part] = tensor

    def branch(self, parents: Tensor, most: int) -> None:
        self._state = self._pick(torch.cat([torch.arange(self.rows), parents.cpu()]))

    def select(self, rows: Tensor) -> WholeStateCache:
        selected = WholeStateCache(self._pick(rows.cpu()), self._read)
        selected._alike, selected._mixed = self._alike, self._mixed
        return selected

    def _pick(self, rows: Tensor) -> PartState:
        tensors = [tensor.index_select(0, rows.to(tensor.device)) for tensor in self._state.tensors]
        return replace(self._state, tensors=tensors)


class NoCache:
    """A :class:`GrowingCache` without cached state: tokens, read again from the first at every step."""

    many_tokens = True

    def __init__(self, tokens: Tensor) -> None:
        self.tokens = tokens
        self._grown: list[Tensor] = []

    @property
    def rows(self) -> int:
        return len(self.tokens)

    def row_bytes(self, more: int) -> int:
        """Return 0, since there is no cache."""
        return 0

    def feed(self, rows: slice = ALL) -> Tensor:
        """Return the tokens."""
        return self.tokens[rows]

    def took(self, cache: Tensor) -> None:
        """Store the tokens that were read."""
        self._grown.append(cache)
        if sum(map(len, self._grown)) == self.rows:
            self.tokens, self._grown = torch.cat(self._grown), []

    def mixes(self) -> bool:
        """Return False."""
        return False

    def branch(self, parents: Tensor, most: int) -> None:
        self.tokens = torch.cat([self.tokens, self.tokens[parents]])

    def select(self, rows: Tensor) -> NoCache:
        return NoCache(self.tokens[rows])


def _form(state: PartState) -> Hashable:
    """Return a key of shapes and types; a state can be written over rows of another state with an equal key."""
    return form_of(state.cache())

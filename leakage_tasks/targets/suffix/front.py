"""A batch of partly drawn suffixes: the row of each draw, the rows to read next, and the branching of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray
from leakage_tasks.targets.suffix.growing_cache import GrowingCache
from leakage_tasks.targets.suffix.sampled_suffixes import PartialDraws

FINISHED = -1
"""Value that replaces the row index of a draw whose tokens are complete."""
SPARSE = 4
"""Rows without a draw are removed when they are at least one in this number."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """The ``n`` distinct next tokens of some draws, each with its step and parent row.

    Draw number ``draws[i]`` takes token number ``which[i]``.
    """

    draws: IntArray
    which: IntArray
    parents: IntArray
    steps: IntArray
    tokens: IntArray
    figures: FloatArray

    @property
    def more(self) -> int:
        """Number of rows that the tokens add to their parent rows."""
        return len(self.parents) - len(np.unique(self.parents))

    def take(self, wanted: BoolArray) -> Chosen:
        """Return the tokens where ``wanted`` ``[n]`` is True, with their draws."""
        kept, number = wanted[self.which], np.cumsum(wanted) - 1
        parents, steps, tokens = (column[wanted] for column in (self.parents, self.steps, self.tokens))
        return Chosen(self.draws[kept], number[self.which[kept]], parents, steps, tokens, self.figures[:, wanted])

    @classmethod
    def none(cls) -> Chosen:
        """Return no tokens."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(empty, empty, empty, empty, empty, np.zeros((len(PartialDraws.FIGURES), 0)))

    @classmethod
    def join(cls, parts: Sequence[Chosen]) -> Chosen:
        """Concatenate ``parts``, sorted by step."""
        parents, steps, tokens = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("parents", "steps", "tokens")
        )
        offsets = np.cumsum([0, *(len(part.parents) for part in parts[:-1])])
        which = np.concatenate([part.which + offset for part, offset in zip(parts, offsets, strict=True)])
        order = np.argsort(steps, kind="stable")
        figures = np.concatenate([part.figures for part in parts], axis=1)
        draws = np.concatenate([part.draws for part in parts])
        return cls(draws, np.argsort(order)[which], parents[order], steps[order], tokens[order], figures[:, order])


@dataclass
class DrawFront:
    """Draws in progress: draw ``draws[i]`` is row ``row_of[i]`` of ``live`` and ``path``.

    The cached state of a row does not include its last token, which is read next. This token belongs to ``step`` for
    rows from ``first`` to ``end``, and to the next step for all other rows. ``ahead`` is the number of leading rows
    that were already at the next step when the last pass read them.
    """

    live: GrowingCache
    path: PartialDraws
    draws: IntArray
    row_of: IntArray
    step: int
    first: int
    end: int
    ahead: int = 0

    def of_rows(self, rows: slice) -> IntArray:
        """Return the indices of the draws that belong to some rows."""
        return np.flatnonzero((self.row_of >= rows.start) & (self.row_of < rows.stop))

    def last_tokens(self, rows: slice, step: int) -> Tensor:
        """Return the tokens ``[n]`` of ``step`` of some rows."""
        return torch.from_numpy(self.path.tokens[rows, step])

    def finish(self, chosen: Chosen) -> tuple[PartialDraws, IntArray, IntArray]:
        """Return the finished suffixes, the indices of their draws, and the index of each draw's suffix."""
        self.row_of[chosen.draws] = FINISHED
        return _with(self.path, chosen), self.draws[chosen.draws], chosen.which

    @property
    def done(self) -> bool:
        """True if the tokens of all draws are complete."""
        return bool((self.row_of == FINISHED).all())

    def compact(self, chosen: Sequence[Chosen]) -> bool:
        """If many rows have no draw, follow ``chosen`` and keep only rows with draws; return True if so."""
        waiting = Chosen.join([self._unread(chosen), *chosen])
        needed = len(waiting.tokens)
        if self.live.rows - needed < self.live.rows / SPARSE:
            return False
        vars(self).update(vars(self._part(waiting, 0, needed)))
        return True

    def follow(self, chosen: Sequence[Chosen], most: int) -> None:
        """Append each row's first next token to it and add a row for each other next token, up to ``most`` rows.

        Next tokens of rows of this step come first in ``chosen``, then next tokens of rows read ``ahead``.
        """
        step, ahead = chosen[:1], chosen[1:]
        for choice in step:
            self._follow(choice, most)
        if self.first == self.end:
            self.step, self.first, self.end, self.ahead = self.step + 1, self.ahead, self.live.rows, 0
        for choice in ahead:
            self._follow(choice, most)

    def _follow(self, chosen: Chosen, most: int) -> None:
        parents = chosen.parents
        if not len(parents):
            return
        stays = np.r_[True, parents[1:] != parents[:-1]]
        rows = parents.copy()
        rows[~stays] = self.live.rows + np.arange(np.count_nonzero(~stays))
        if not stays.all():
            self.live.branch(torch.from_numpy(parents[~stays]), most)
            self.path.branch(parents[~stays])
        self.row_of[chosen.draws] = rows[chosen.which]
        self.path.write(chosen.steps, rows, chosen.tokens, chosen.figures)

    def split(self, chosen: Sequence[Chosen], held: int) -> Iterator[DrawFront]:
        """Yield fronts, created on demand, with few enough draws or rows that each may grow to ``held`` rows.

        ``chosen`` are next tokens that were not followed yet.
        """
        waiting = Chosen.join([self._unread(chosen), *chosen])
        draws = np.bincount(waiting.which).cumsum()
        first = last = 0
        while last < len(waiting.tokens):
            first, before = last, draws[last - 1] if last else 0
            last = max(first + 1, first + held // 2, int(np.searchsorted(draws, before + held, side="right")))
            yield self._part(waiting, first, min(last, len(waiting.tokens)))

    def _unread(self, chosen: Sequence[Chosen]) -> Chosen:
        """Return the last tokens of all rows except the parents of ``chosen``, with the rows as parents."""
        left = self.row_of != FINISHED
        for choice in chosen:
            left[choice.draws] = False
        draws = np.flatnonzero(left)
        rows, which = np.unique(self.row_of[draws], return_inverse=True)
        steps = np.where((rows >= self.first) & (rows < self.end), self.step, self.step + 1)
        return Chosen(draws, which, rows, steps, self.path.tokens[rows, steps], self.path.figures[:, rows, steps])

    def _part(self, waiting: Chosen, first: int, last: int) -> DrawFront:
        inside = (waiting.which >= first) & (waiting.which < last)
        parents, steps, tokens = (array[first:last] for array in (waiting.parents, waiting.steps, waiting.tokens))
        draws, which = waiting.draws[inside], waiting.which[inside] - first
        part = Chosen(draws, which, parents, steps, tokens, waiting.figures[:, first:last])
        step = int(part.steps[0])
        next_ones = int(np.searchsorted(part.steps, step, side="right"))
        live = self.live.select(torch.from_numpy(part.parents))
        return DrawFront(live, _with(self.path, part), self.draws[part.draws], part.which, step, 0, next_ones)


def _with(path: PartialDraws, chosen: Chosen) -> PartialDraws:
    """Return one row per token of ``chosen``: its parent's tokens and figures, and the token itself."""
    copy = path.select(chosen.parents)
    copy.write(chosen.steps, np.arange(len(chosen.tokens)), chosen.tokens, chosen.figures)
    return copy

"""A batch of partly drawn suffixes: which row each draw is, which rows are to be read next, and how rows part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.targets.suffix.growing_cache import GrowingCache
from leakage_tasks.targets.suffix.sampled_suffixes import PartialDraws

FINISHED = -1
"""In place of the row of a draw that has all its tokens."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """The ``n`` distinct next tokens of some of a front's draws, each of a step and after a parent row.

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
        """How many rows they are more than their parents."""
        return len(self.parents) - len(np.unique(self.parents))

    @classmethod
    def join(cls, parts: Sequence[Chosen]) -> Chosen:
        """All of several, those of the least step first."""
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
    """Draw ``draws[i]`` has become row ``row_of[i]`` of ``live`` and ``path``.

    What ``live`` remembers of a row lacks its last token, which is to be read. That of the rows from ``first`` to
    ``end`` is of ``step``, that of all others of the next step. ``ahead`` are the first rows that were of the next step
    when the last pass read them.
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
        """The numbers of the draws that are some rows."""
        return np.flatnonzero((self.row_of >= rows.start) & (self.row_of < rows.stop))

    def last_tokens(self, rows: slice, step: int) -> Tensor:
        """The tokens ``[n]`` of ``step`` of some rows."""
        return torch.from_numpy(self.path.tokens[rows, step])

    def finish(self, chosen: Chosen) -> tuple[PartialDraws, IntArray, IntArray]:
        """Distinct suffixes with their last tokens, the draws that they are, and which one each of these is."""
        self.row_of[chosen.draws] = FINISHED
        return _with(self.path, chosen), self.draws[chosen.draws], chosen.which

    def follow(self, chosen: Sequence[Chosen], most: int) -> None:
        """Let every row go its first way and add a row for each other one; there will be no more than ``most`` rows.

        Next tokens of the rows of this step come first among ``chosen``, then those of the rows read ``ahead``.
        """
        step, ahead = chosen[:1], chosen[1:]
        for each in step:
            self._follow(each, most)
        if self.first == self.end:
            self.step, self.first, self.end, self.ahead = self.step + 1, self.ahead, self.live.rows, 0
        for each in ahead:
            self._follow(each, most)

    def _follow(self, chosen: Chosen, most: int) -> None:
        parents = chosen.parents
        stays = np.r_[True, parents[1:] != parents[:-1]]
        place = parents.copy()
        place[~stays] = self.live.rows + np.arange(np.count_nonzero(~stays))
        if not stays.all():
            self.live.branch(torch.from_numpy(parents[~stays]), most)
            self.path.branch(parents[~stays])
        self.row_of[chosen.draws] = place[chosen.which]
        self.path.write(chosen.steps, place, chosen.tokens, chosen.figures)

    def split(self, chosen: Sequence[Chosen], held: int) -> Iterator[DrawFront]:
        """Fronts of so few draws, or rows, that each may grow to ``held`` rows; made when they are asked for.

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
        """The last tokens of all rows but the parents of ``chosen``, after the rows themselves."""
        left = self.row_of != FINISHED
        for each in chosen:
            left[each.draws] = False
        draws = np.flatnonzero(left)
        rows, which = np.unique(self.row_of[draws], return_inverse=True)
        steps = np.where((rows >= self.first) & (rows < self.end), self.step, self.step + 1)
        return Chosen(draws, which, rows, steps, self.path.tokens[rows, steps], self.path.figures[:, rows, steps])

    def _part(self, waiting: Chosen, first: int, last: int) -> DrawFront:
        own = (waiting.which >= first) & (waiting.which < last)
        parents, steps, tokens = (each[first:last] for each in (waiting.parents, waiting.steps, waiting.tokens))
        draws, which = waiting.draws[own], waiting.which[own] - first
        part = Chosen(draws, which, parents, steps, tokens, waiting.figures[:, first:last])
        step = int(part.steps[0])
        next_ones = int(np.searchsorted(part.steps, step, side="right"))
        live = self.live.select(torch.from_numpy(part.parents))
        return DrawFront(live, _with(self.path, part), self.draws[part.draws], part.which, step, 0, next_ones)


def _with(path: PartialDraws, chosen: Chosen) -> PartialDraws:
    """What is known of the parents of ``chosen``, one row for each token, and the tokens themselves."""
    found = path.select(chosen.parents)
    found.write(chosen.steps, np.arange(len(chosen.tokens)), chosen.tokens, chosen.figures)
    return found

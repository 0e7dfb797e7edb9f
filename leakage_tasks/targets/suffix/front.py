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
    """The ``n`` distinct next tokens of some draws, each with its parent row.

    Draw number ``draws[i]`` takes token number ``which[i]``.
    """

    draws: IntArray
    which: IntArray
    parents: IntArray
    tokens: IntArray
    figures: FloatArray

    @property
    def more(self) -> int:
        """Number of rows that the tokens add to their parent rows."""
        return len(self.parents) - len(np.unique(self.parents))

    def take(self, wanted: BoolArray) -> Chosen:
        """Return the tokens where ``wanted`` ``[n]`` is True, with their draws."""
        kept, number = wanted[self.which], np.cumsum(wanted) - 1
        which, figures = number[self.which[kept]], self.figures[:, wanted]
        return Chosen(self.draws[kept], which, self.parents[wanted], self.tokens[wanted], figures)

    @classmethod
    def none(cls) -> Chosen:
        """Return no tokens."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(empty, empty, empty, empty, np.zeros((len(PartialDraws.FIGURES), 0)))

    @classmethod
    def join(cls, parts: Sequence[Chosen]) -> Chosen:
        """Concatenate the tokens that follow successive rows."""
        draws, parents, tokens = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("draws", "parents", "tokens")
        )
        offsets = np.cumsum([0, *(len(part.parents) for part in parts[:-1])])
        which = np.concatenate([part.which + offset for part, offset in zip(parts, offsets, strict=True)])
        return cls(draws, which, parents, tokens, np.concatenate([part.figures for part in parts], axis=1))


@dataclass
class DrawFront:
    """Draws in progress: draw ``draws[i]`` is row ``row_of[i]`` of ``live`` and ``path``.

    The cached state of a row does not include its last token, which is that of ``step`` and is read next.
    """

    live: GrowingCache
    path: PartialDraws
    draws: IntArray
    row_of: IntArray
    step: int

    def of_rows(self, rows: slice) -> IntArray:
        """Return the indices of the draws that belong to some rows."""
        return np.flatnonzero((self.row_of >= rows.start) & (self.row_of < rows.stop))

    def last_tokens(self, rows: slice) -> Tensor:
        """Return the last tokens ``[n]`` of some rows."""
        return torch.from_numpy(self.path.tokens[rows, self.step])

    def finish(self, chosen: Chosen) -> tuple[PartialDraws, IntArray, IntArray]:
        """Return the finished suffixes, the indices of their draws, and the index of each draw's suffix."""
        self.row_of[chosen.draws] = FINISHED
        return self._with(chosen), self.draws[chosen.draws], chosen.which

    @property
    def done(self) -> bool:
        """True if the tokens of all draws are complete."""
        return bool((self.row_of == FINISHED).all())

    def compact(self, chosen: Chosen) -> bool:
        """If many rows have no draw, follow ``chosen`` and keep only rows with draws; return True if so."""
        needed = len(chosen.tokens)
        if self.live.rows - needed < self.live.rows / SPARSE:
            return False
        vars(self).update(vars(self._part(chosen, 0, needed)))
        return True

    def follow(self, chosen: Chosen, most: int) -> None:
        """Append each row's first next token to it and add a row for each other next token, up to ``most`` rows."""
        parents = chosen.parents
        stays = np.r_[True, parents[1:] != parents[:-1]]
        rows = parents.copy()
        rows[~stays] = self.live.rows + np.arange(np.count_nonzero(~stays))
        if not stays.all():
            self.live.branch(torch.from_numpy(parents[~stays]), most)
            self.path.branch(parents[~stays])
        self.row_of[chosen.draws] = rows[chosen.which]
        self.step += 1
        self.path.write(self.step, rows, chosen.tokens, chosen.figures)

    def split(self, chosen: Chosen, held: int) -> Iterator[DrawFront]:
        """Yield fronts, created on demand, with few enough draws or rows that each may grow to ``held`` rows.

        ``chosen`` are next tokens that were not followed yet.
        """
        draws = np.bincount(chosen.which).cumsum()
        first = last = 0
        while last < len(chosen.tokens):
            first, before = last, draws[last - 1] if last else 0
            last = max(first + 1, first + held // 2, int(np.searchsorted(draws, before + held, side="right")))
            yield self._part(chosen, first, min(last, len(chosen.tokens)))

    def _part(self, chosen: Chosen, first: int, last: int) -> DrawFront:
        inside = (chosen.which >= first) & (chosen.which < last)
        parents, tokens, figures = chosen.parents[first:last], chosen.tokens[first:last], chosen.figures[:, first:last]
        part = Chosen(chosen.draws[inside], chosen.which[inside] - first, parents, tokens, figures)
        live = self.live.select(torch.from_numpy(parents))
        return DrawFront(live, self._with(part), self.draws[part.draws], part.which, self.step + 1)

    def _with(self, chosen: Chosen) -> PartialDraws:
        """Return one row per token of ``chosen``: its parent's tokens and figures, and the token itself."""
        path = self.path.select(chosen.parents)
        path.write(self.step + 1, np.arange(len(chosen.tokens)), chosen.tokens, chosen.figures)
        return path

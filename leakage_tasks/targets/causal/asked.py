"""What attacks ask a causal model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from leakage_tasks.core.arrays import IntArray


@dataclass(frozen=True)
class Start:
    """A prefix to be read by a ``target``, which tokens' costs after it are wanted, and some that will be read next."""

    target: Any
    tokens: Sequence[int]
    columns: IntArray
    ahead: Sequence[int] = ()


@dataclass(frozen=True)
class Step:
    """Texts to be made one token longer: the arguments of ``target.extend``."""

    target: Any
    states: Sequence[Any]
    which: IntArray
    rows: IntArray
    tokens: IntArray
    columns: IntArray

    def part(self, rows: slice) -> Step:
        """Some of the texts."""
        return replace(self, which=self.which[rows], rows=self.rows[rows], tokens=self.tokens[rows])


@dataclass(frozen=True)
class Texts:
    """Whole texts to be scored by a ``target``: all that is read for each."""

    target: Any
    rows: Sequence[list[int]]

"""Requests that attacks submit to a causal model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from leakage_tasks.core.arrays import IntArray


@dataclass(frozen=True)
class Start:
    """A prefix to read with ``target``.

    ``columns`` are the tokens whose costs after the prefix are needed, ``ahead`` a few next tokens that a search will
    read.
    """

    target: Any
    tokens: Sequence[int]
    columns: IntArray
    ahead: Sequence[int] = ()


@dataclass(frozen=True)
class Step:
    """Cached sequences to extend by one token each: the arguments of ``target.extend``."""

    target: Any
    states: Sequence[Any]
    which: IntArray
    rows: IntArray
    tokens: IntArray
    columns: IntArray

    def part(self, rows: slice) -> Step:
        """Return the step for some of its rows."""
        return replace(self, which=self.which[rows], rows=self.rows[rows], tokens=self.tokens[rows])


@dataclass(frozen=True)
class Texts:
    """Whole token sequences to score with ``target``, with everything that is read before each text."""

    target: Any
    rows: Sequence[list[int]]

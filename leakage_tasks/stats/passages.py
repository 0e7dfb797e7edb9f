"""Runs of positions, and passages of a document that a model wrote near-verbatim and in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

GAP, DRIFT, BLOCK, PASSAGE = 3, 3, 5, 25
"""Default limits of :func:`passages`, in tokens."""


class Stretch(NamedTuple):
    """The positions from ``start`` up to, but without, ``end``."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """Number of positions."""
        return self.end - self.start


class Block(NamedTuple):
    """``length`` written tokens that equal the document's tokens from position ``true`` on.

    ``written`` is the position that the first of them has if the written text is laid over the document from the end of
    its prefix on. ``written - true`` is the drift: 0 if nothing was inserted or left out before.
    """

    written: int
    true: int
    length: int

    @property
    def end(self) -> int:
        """Position in the document after the block."""
        return self.true + self.length

    @property
    def drift(self) -> int:
        """Shift of the written text against the document."""
        return self.written - self.true


@dataclass(frozen=True)
class Limits:
    """Limits for near-verbatim passages, in tokens.

    ``gap`` is the largest number of the document's tokens between two blocks of a passage, ``drift`` the largest change
    of the drift between them. ``block`` is the smallest length of a block, and ``passage`` the smallest number of
    equal tokens of a passage.
    """

    gap: int = GAP
    drift: int = DRIFT
    block: int = BLOCK
    passage: int = PASSAGE


DEFAULTS = Limits()


def merged(spans: Iterable[Stretch]) -> list[Stretch]:
    """Return the union of spans as disjoint spans, in ascending order; spans that overlap or touch are one."""
    joined: list[Stretch] = []
    for span in sorted(span for span in spans if span.length > 0):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Stretch(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


def covered(spans: Iterable[Stretch]) -> int:
    """Return the number of distinct positions in spans."""
    return sum(span.length for span in merged(spans))


def longest(spans: Iterable[Stretch]) -> Stretch | None:
    """Return the longest run of positions in the union of spans, the first of several; None without a position."""
    return max(merged(spans), key=lambda span: span.length, default=None)


def passages(blocks: Sequence[Block], limits: Limits = DEFAULTS) -> list[list[Block]]:
    """Merge blocks into passages that were written near-verbatim and in order.

    Two blocks are neighbours if at most ``gap`` tokens of the document are between them (none if they overlap) and
    their drifts differ by at most ``drift``. A passage is a maximal set of blocks that neighbours connect. Blocks and
    passages below their smallest length are left out. The number of tokens in passages, as a share of the document, is
    a block-based approximation of the longest common subsequence, like nv-recall in "Extracting books from production
    language models" (arXiv:2601.02671, 2026); neighbours, limits and their default values are defined here.

    Args:
        blocks: Equal runs of tokens, in any order.
        limits: The limits.

    Returns:
        The passages in the order of the document, each with its blocks in order.
    """
    ordered = sorted({block for block in blocks if block.length >= limits.block}, key=lambda block: (block.true, block))
    parents = list(range(len(ordered)))
    open_blocks: list[int] = []
    for index, block in enumerate(ordered):
        open_blocks = [other for other in open_blocks if block.true - ordered[other].end <= limits.gap]
        for other in open_blocks:
            if abs(block.drift - ordered[other].drift) <= limits.drift:
                parents[_root(parents, index)] = _root(parents, other)
        open_blocks.append(index)
    grouped: dict[int, list[Block]] = {}
    for index, block in enumerate(ordered):
        grouped.setdefault(_root(parents, index), []).append(block)
    return [group for group in grouped.values() if covered(map(stretch_of, group)) >= limits.passage]


def stretch_of(block: Block) -> Stretch:
    """Return the positions of a block in the document."""
    return Stretch(block.true, block.end)


def _root(parents: list[int], index: int) -> int:
    while parents[index] != index:
        parents[index] = parents[parents[index]]
        index = parents[index]
    return index

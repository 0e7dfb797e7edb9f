"""Grouping of pairs for a target: equal lengths, and enough pairs to fill its forward passes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any

from leakage_tasks.attacks.suffix.finding import SuffixFinding
from leakage_tasks.attacks.suffix.request import SuffixRequest
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.protocols import DrawsSuffixes

DRAWN = 1 << 20
"""Maximum number of tokens of a group's draws while their overlap is unknown, because all draws may differ and are kept
in memory."""
FILLED, GROWN = 8, 8
"""Number of forward passes that a group should fill if its draws overlap, and the maximum factor by which a group may
grow."""


def groups_of(
    target: DrawsSuffixes,
    pairs: Sequence[Pair],
    left_out: Collection[int],
    request: SuffixRequest,
    progress: Callable[..., Any] | None,
    findings: Mapping[int, SuffixFinding] = MappingProxyType({}),
) -> Generator[list[int], None, None]:
    """Yield groups of indices of pairs with equal lengths.

    If the draws of a group overlap, its rows do not fill the forward passes, so the next group is larger.

    Args:
        target: The model that draws suffixes.
        pairs: The pairs.
        left_out: Indices of pairs to skip.
        request: The options of the attack.
        progress: Makes a progress bar, which advances while suffixes are drawn.
        findings: Findings so far; they show how much the draws of the last group overlap.
    """
    by_length: dict[tuple[int, int], list[int]] = {}
    for index, pair in enumerate(pairs):
        if index not in left_out:
            by_length.setdefault((len(pair.prefix), len(pair.suffix)), []).append(index)
    with progress(total=len(pairs), initial=len(left_out)) if progress else nullcontext() as bar:
        for (_, length), indices in by_length.items():
            most = max(1, DRAWN // (request.draws * length))
            first, size = 0, min(most, target.pairs_at_once(pairs[indices[0]], request.draws))
            group_size = size
            while first < len(indices):
                group = indices[first : first + group_size]
                first += len(group)
                shown = _GroupBar(bar, len(group), 1 + len(request.prefix_lengths))
                target.on_drawn = shown.drawn
                yield group
                shown.update(len(group))
                rows = sum(findings[index].nodes for index in group if index in findings)
                filling = FILLED * size * length * len(group) // rows if rows else size
                group_size = max(size, min(filling, GROWN * size))


class _GroupBar:
    """The part of a progress bar for a group of pairs, whose suffixes are drawn ``times`` times."""

    def __init__(self, bar: Any, pairs: int, times: int) -> None:
        self._bar, self._pairs, self._times = bar, pairs, times
        self._drawn, self._shown = 0.0, 0

    def drawn(self, pairs: float) -> None:
        """Add the draws after a number of prefixes."""
        self._drawn += pairs / self._times
        self.update(min(int(self._drawn), self._pairs))

    def update(self, pairs: int) -> None:
        """Show at least this number of pairs."""
        if self._bar is not None and pairs > self._shown:
            self._bar.update(pairs - self._shown)
            self._shown = pairs

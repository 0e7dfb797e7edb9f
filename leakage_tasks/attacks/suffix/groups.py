"""Which pairs are given to a target at once: of equal lengths, and as many as fill its passes."""

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
"""Tokens of a group's draws, as long as nothing is known of how alike they are: all may differ, and are held."""
FILLED, GROWN = 8, 8
"""Passes that the rows of a group's step are to fill, where draws are alike, and so many times the pairs for it."""


def groups_of(
    target: DrawsSuffixes,
    pairs: Sequence[Pair],
    left_out: Collection[int],
    request: SuffixRequest,
    progress: Callable[..., Any] | None,
    found: Mapping[int, SuffixFinding] = MappingProxyType({}),
) -> Generator[list[int], None, None]:
    """Places of pairs of equal lengths, some at a time; ``progress`` is shown of those that are done.

    More at a time follow groups whose draws are alike, as ``found`` says of them when the next is asked for: they fill
    no passes.
    """
    by_length: dict[tuple[int, int], list[int]] = {}
    for index, pair in enumerate(pairs):
        if index not in left_out:
            by_length.setdefault((len(pair.prefix), len(pair.suffix)), []).append(index)
    with progress(total=len(pairs), initial=len(left_out)) if progress else nullcontext() as bar:
        for (_, length), places in by_length.items():
            most = max(1, DRAWN // (request.draws * length))
            first, size = 0, min(most, target.pairs_at_once(pairs[places[0]], request.draws))
            now = size
            while first < len(places):
                group = places[first : first + now]
                first += len(group)
                yield group
                if bar is not None:
                    bar.update(len(group))
                rows = sum(found[place].nodes for place in group if place in found)
                filling = FILLED * size * length * len(group) // rows if rows else size
                now = max(size, min(filling, GROWN * size))

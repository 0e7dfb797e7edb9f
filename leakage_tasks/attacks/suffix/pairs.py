"""Pairs as the attack takes them: fit for the model, grouped by length, each with random numbers of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from leakage_tasks.attacks.suffix.request import SuffixRequest
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.protocols import DrawsSuffixes

TOGETHER, DRAWS_TOGETHER = 64, 6_400
"""Pairs given to a target at once, and draws of them."""


def check_pairs(target: DrawsSuffixes, pairs: Sequence[Pair], order: SuffixRequest) -> None:
    """Raise TargetError for the first pair that the model cannot read, OptionError for a sweep longer than it."""
    for pair in pairs:
        largest, length = max(*pair.prefix, *pair.suffix), len(pair.prefix) + len(pair.suffix)
        if target.vocabulary is not None and largest >= target.vocabulary:
            raise TargetError(
                f"pair {pair.id} holds token {largest}, the model knows 0 to {target.vocabulary - 1}: give pairs made "
                "with this model's tokenizer"
            )
        if target.max_length is not None and length > target.max_length:
            raise TargetError(
                f"pair {pair.id} has {len(pair.prefix)} + {len(pair.suffix)} tokens, the model has room for "
                f"{target.max_length} (a soft prompt's taken off): pass a smaller prefix_length or suffix_length"
            )
        for name, own in (("prefix_lengths", pair.prefix), ("suffix_lengths", pair.suffix)):
            if (most := max(getattr(order, name), default=0)) > len(own):
                raise OptionError(f"{name} has {most}, pair {pair.id} has {len(own)} tokens there: use that or less")


def uniforms(seed: int, pair: Pair, samples: int) -> FloatArray:
    """The random numbers of a pair's draws ``[samples, suffix length]``, a function of the seed and the pair's id.

    The first rows of many are those of few.
    """
    digest = hashlib.sha256(f"suffixes:{seed}:{pair.id}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:16], "big"))
    return generator.random((samples, len(pair.suffix)))


def groups_of(pairs: Sequence[Pair], left_out: dict[int, str], order: SuffixRequest) -> Iterator[list[int]]:
    """Places of pairs of equal lengths, some at a time."""
    by_length: dict[tuple[int, int], list[int]] = {}
    for place, pair in enumerate(pairs):
        if place not in left_out:
            by_length.setdefault((len(pair.prefix), len(pair.suffix)), []).append(place)
    size = max(1, min(TOGETHER, DRAWS_TOGETHER // order.draws))
    for places in by_length.values():
        for first in range(0, len(places), size):
            yield places[first : first + size]

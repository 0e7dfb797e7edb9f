"""Coins that decide which canaries are planted, as the one-run audit needs them.

The coin of a canary follows from the manifest's seed and the canary's id, so a manifest whose coins were changed after
they were drawn is recognised.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from leakage_tasks.canaries.canary import AUXILIARY_KINDS, Canary
from leakage_tasks.core.errors import OptionError


def heads(seed: int, name: str) -> bool:
    """Return True with probability 1/2: the canary ``name`` of a manifest with this seed is planted."""
    return hashlib.sha256(f"coin:{seed}:{name}".encode()).digest()[0] % 2 == 0


def flipped(canaries: Sequence[Canary], seed: int) -> list[Canary]:
    """Return the canaries after their coins: one whose coin shows tails becomes a control.

    Canaries that are controls already have no coin. Raises OptionError for canaries with supporting canaries, because
    these would stay planted.
    """
    if any(canary.kind in AUXILIARY_KINDS for canary in canaries):
        raise OptionError("--coin decides on each canary by itself: leave out --supporting, or the coins")
    return [_flip(canary, seed) if canary.planted else canary for canary in canaries]


def _flip(canary: Canary, seed: int) -> Canary:
    if heads(seed, canary.id):
        return replace(canary, coin=True)
    return replace(canary, coin=True, planted=False, repetitions=0)


def coin_fault(canary: Canary) -> str | None:
    """Return the fault of a canary whose planting is not what its coin decided; None without a fault."""
    if not canary.coin:
        return None
    if canary.seed is None:
        return "field 'seed': missing, although a coin decided on planting: make the manifest again with --coin"
    if canary.planted != heads(canary.seed, canary.id):
        return (
            "field 'planted': differs from the coin of this seed and id, so the one-run audit would be wrong: make the "
            "manifest again with --coin, and edit no line"
        )
    return None

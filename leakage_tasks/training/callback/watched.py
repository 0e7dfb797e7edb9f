"""The choice of the canaries whose exposure is measured during training."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.canaries import Canary, read_manifest
from leakage_tasks.core.errors import OptionError

WATCHED = ("random", "organic")
"""Kinds of canaries whose exposure is comparable with the controls. Natural secrets were not drawn at random from their
space: they are watched only on request and reported separately."""


def watched_canaries(
    manifest: str | Path, most: int | None = None, controls: bool = True, seed: int = 0, natural: bool = False
) -> list[Canary]:
    """Choose the canaries to watch.

    Args:
        manifest: The path of the manifest.
        most: Largest number of planted canaries, spread evenly over their numbers of repetitions, and of controls.
        controls: Include controls.
        seed: Random seed of the choice.
        natural: Include natural secrets.

    Returns:
        Planted canaries and controls, in the order of the manifest.

    Raises:
        ManifestError: The manifest cannot be read.
        OptionError: The manifest has no planted canary of a suitable kind.
    """
    kinds = (*WATCHED, NATURAL) if natural else WATCHED
    canaries = [canary for canary in read_manifest(manifest) if canary.kind in kinds]
    planted = [canary for canary in canaries if canary.planted]
    if not planted:
        raise OptionError(
            f"{manifest}: contains no planted canary of kind {' or '.join(kinds)}: make canaries with 'leakage "
            "canaries'" + ("" if natural else ", or watch natural secrets with natural=True")
        )
    never = [canary for canary in canaries if not canary.planted and controls]
    chosen = {canary.id for group in (planted, never) for canary in _alternate_repetitions(group, seed)[:most]}
    return [canary for canary in canaries if canary.id in chosen]


def _alternate_repetitions(canaries: Sequence[Canary], seed: int) -> list[Canary]:
    """Return the canaries in a random order in which all numbers of repetitions alternate."""
    groups: dict[int, list[Canary]] = {}
    for canary in canaries:
        groups.setdefault(canary.repetitions, []).append(canary)
    for times, group in groups.items():
        random.Random(f"watched:{seed}:{times}").shuffle(group)
    turns = zip_longest(*(groups[times] for times in sorted(groups, reverse=True)))
    return [canary for canary in chain.from_iterable(turns) if canary is not None]

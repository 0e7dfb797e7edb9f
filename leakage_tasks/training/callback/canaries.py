"""Which canaries of a manifest are watched during training."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path

from leakage_tasks.canaries import Canary, read_manifest
from leakage_tasks.core.errors import OptionError

WATCHED = ("random", "organic")
"""Kinds whose exposure can be read beside that of controls. Natural secrets were not drawn from their space."""


def watched_canaries(
    manifest: str | Path, most: int | None = None, controls: bool = True, seed: int = 0
) -> list[Canary]:
    """Planted canaries and controls of a manifest, in its order.

    Of the planted ones ``most`` at the most, as equally many of each number of repetitions as there are, and of the
    controls too; which, ``seed`` decides. Raises ManifestError for a manifest that cannot be read, and OptionError
    for one without a planted canary of a kind that is watched.
    """
    canaries = [canary for canary in read_manifest(manifest) if canary.kind in WATCHED]
    planted = [canary for canary in canaries if canary.planted]
    if not planted:
        raise OptionError(
            f"{manifest}: holds no planted canary of kind {' or '.join(WATCHED)}, so none to watch: make some with "
            "'leakage canaries'; natural ones are measured by lm_eval, after training"
        )
    never = [canary for canary in canaries if not canary.planted and controls]
    chosen = {canary.id for group in (planted, never) for canary in _spread(group, seed)[:most]}
    return [canary for canary in canaries if canary.id in chosen]


def _spread(canaries: Sequence[Canary], seed: int) -> list[Canary]:
    """The canaries in such an order that its beginning holds as many of each number of repetitions as it can."""
    groups: dict[int, list[Canary]] = {}
    for canary in canaries:
        groups.setdefault(canary.repetitions, []).append(canary)
    for times, group in groups.items():
        random.Random(f"watched:{seed}:{times}").shuffle(group)
    turns = zip_longest(*(groups[times] for times in sorted(groups, reverse=True)))
    return [canary for canary in chain.from_iterable(turns) if canary is not None]

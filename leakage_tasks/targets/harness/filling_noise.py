"""Rounding noise of fillings in their context, which findings state and intervals of ranks include.

Rounding changes the cost of a token that is nearly certain, as most of a template are, less than that of another. So
the noise is measured on random fillings of a canary of the manifest, as attacks read them.
"""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from typing import Any

import numpy as np

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.targets.noise import FLOOR_BITS, Noise
from leakage_tasks.targets.protocols import ReadsSource, TakesContext
from leakage_tasks.targets.rounding import perturbed_rounding

FILLINGS, ALONE = 16, 2
"""Random fillings that are read together, and those that are read alone as well."""
FEWEST = 4
"""Fewer fillings than this show no spread of their costs."""
BLURRED = 0.25
"""Share of the standard deviation of random fillings' costs that the noise may have before it is warned of."""


def example_of(canaries: Sequence[Canary]) -> Canary:
    """Return the canary whose fillings are measured: one that is no natural secret, of the largest space."""
    open_ = [canary for canary in canaries if canary.kind != "natural"]
    return max(open_ or canaries, key=lambda canary: canary.attack_space.size)


def random_texts(space: Space, number: int) -> list[str]:
    """Return random fillings as texts, or all if there are few."""
    drawn = list(space.enumerate()) if space.size <= number else space.sample(2 * number, "alive")
    return [space.fill(filling) for filling in list(dict.fromkeys(drawn))[:number]]


def noise_on_fillings(target: Any, canary: Canary, context: Context) -> Noise:
    """Measure the noise of a model in 16 bits on fillings of ``canary`` in ``context``.

    A model that does not read them by tokens, or has no room for them, has its general noise.
    """
    view = target
    if isinstance(target, ReadsSource):
        view = target.given(canary)
    elif isinstance(target, TakesContext) and not context.is_auto:
        view = target.in_context(context, canary.attack_space)
    general: Noise = target.noise
    if not hasattr(view, "row_costs"):
        return general
    texts = random_texts(canary.attack_space, FILLINGS)
    rows = view.token_rows(texts)
    try:
        together = view.row_costs(rows)
        alone = np.concatenate([view.row_costs([row]) for row in rows[:ALONE]])
        with perturbed_rounding(view.model):
            moved = view.row_costs(rows)
    except TargetError:  # attacks name the canary that is too long
        return general
    shared = max(view.unscored, len(os.path.commonprefix([list(row) for row in rows])))
    lengths = np.array([len(row) for row in rows])
    scored = lengths - view.unscored
    of_token = max(_per_token(moved - together, scored), _per_token(alone - together[:ALONE], scored[:ALONE]))
    # The rounding of what all begin with shifts all costs alike, and moves no rank.
    apart = moved - together - (moved - together).mean()
    of_path = _per_token(apart, lengths - shared)
    warn_of_blur(of_path * float(np.sqrt((lengths - shared).mean())), together)
    return Noise(token_bits=of_token, path_bits=of_path)


def _per_token(differences: FloatArray, tokens: FloatArray) -> float:
    """Return the root mean square difference of one token's cost from those of texts of ``tokens`` tokens each."""
    return float(np.sqrt(np.mean(np.square(differences) / np.maximum(tokens, 1))))


def warn_of_blur(noise: float, fillings: FloatArray) -> None:
    """Warn of rounding noise in bits that is a large part of the differences between costs of random fillings."""
    spread = float(fillings.std())
    if len(fillings) >= FEWEST and noise > max(BLURRED * spread, FLOOR_BITS):
        warn_once(
            f"leakage: rounding changes the cost of a filling by {noise:.2g} bits, and random fillings differ by "
            f"{spread:.2g} bits: ranks and exposures are blurred by that much: load the model with dtype=float32"
        )

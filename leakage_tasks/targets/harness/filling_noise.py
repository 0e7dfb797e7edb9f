"""Rounding noise of fillings in their context, which findings state and intervals of ranks include.

Rounding changes the cost of a nearly certain token, as most of a template's are, less than that of an uncertain token.
So the noise is measured on random fillings of a canary of the manifest, read like attacks read them.
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
"""Number of random fillings in one batch, and of fillings that are also read alone."""
FEWEST = 4
"""Minimum number of fillings for a reliable spread of their costs."""
WARN_RATIO = 0.25
"""Ratio of the noise to the standard deviation of random fillings' costs above which a warning is issued."""


def example_of(canaries: Sequence[Canary]) -> Canary:
    """Return the canary for measurements: the one with the largest space, if possible not a natural secret."""
    open_ = [canary for canary in canaries if canary.kind != "natural"]
    return max(open_ or canaries, key=lambda canary: canary.attack_space.size)


def random_texts(space: Space, number: int) -> list[str]:
    """Return up to ``number`` distinct random fillings as texts, or all fillings if there are not more."""
    drawn = list(space.enumerate()) if space.size <= number else space.sample(2 * number, "alive")
    return [space.fill(filling) for filling in list(dict.fromkeys(drawn))[:number]]


def noise_on_fillings(target: Any, canary: Canary, context: Context) -> Noise:
    """Measure the noise of a model in 16 bits on fillings of ``canary`` in ``context``.

    Returns the model's general noise if it does not read fillings by tokens, or if they are too long.
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
        batched = view.row_costs(rows)
        alone = np.concatenate([view.row_costs([row]) for row in rows[:ALONE]])
        with perturbed_rounding(view.model):
            moved = view.row_costs(rows)
    except TargetError:  # the attack on a canary that is too long reports it by name
        return general
    shared = max(view.unscored, len(os.path.commonprefix([list(row) for row in rows])))
    lengths = np.array([len(row) for row in rows])
    scored = lengths - view.unscored
    of_token = max(_per_token(moved - batched, scored), _per_token(alone - batched[:ALONE], scored[:ALONE]))
    # The rounding of the shared prefix shifts all costs equally, and changes no rank.
    centred = moved - batched - (moved - batched).mean()
    of_path = _per_token(centred, lengths - shared)
    warn_of_blur(of_path * float(np.sqrt((lengths - shared).mean())), batched)
    return Noise(token_bits=of_token, path_bits=of_path)


def _per_token(differences: FloatArray, tokens: FloatArray) -> float:
    """Return the root mean square difference of one token's cost, from differences of texts of ``tokens`` tokens."""
    return float(np.sqrt(np.mean(np.square(differences) / np.maximum(tokens, 1))))


def warn_of_blur(noise: float, fillings: FloatArray) -> None:
    """Warn if rounding noise in bits is large compared to the differences between costs of random fillings."""
    spread = float(fillings.std())
    if len(fillings) >= FEWEST and noise > max(WARN_RATIO * spread, FLOOR_BITS):
        warn_once(
            f"leakage: rounding changes the cost of a filling by {noise:.2g} bits, and random fillings differ by "
            f"{spread:.2g} bits: ranks and exposures are imprecise by that much: load the model with dtype=float32"
        )

"""Check if planted canaries have a clearly higher exposure in another context than in the context of the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.targets.causal.target import CausalInContext, CausalTarget, costs_together, reads_alike

CONTEXTS = (Context("bos"), Context("none"), Context(before="\n"))
MOST = 16
"""Maximum number of canaries, and of controls, in the comparison."""
FILLINGS = 3
"""Number of random fillings of each template."""
LEVEL = 0.01
"""Probability of a false warning, over all contexts together, on a model that knows no canary."""
LEAST_GAIN = 1.0
"""Minimum increase of the mean exposure in bits; the warning requires it in addition to significance."""


@dataclass(frozen=True)
class ClearerContext:
    """A context in which planted secrets have a higher exposure; each pair is (usual context, this context).

    ``planted`` and ``controls`` are mean rough exposures in bits, ``auc`` is the area under the ROC curve of planted
    canaries against controls, and ``counts`` is (number planted, number of controls). If ``private``, some secrets are
    natural, and the warning has no numbers.
    """

    context: Context
    planted: tuple[float, float]
    controls: tuple[float, float]
    auc: tuple[float, float]
    p_value: float
    counts: tuple[int, int]
    private: bool = False

    @property
    def gain(self) -> float:
        """Gain of the planted canaries minus gain of the controls, in bits."""
        return self.planted[1] - self.planted[0] - (self.controls[1] - self.controls[0])

    def __str__(self) -> str:
        """Return the warning as one line."""
        figures = "clearly" if self.private else self._figures()
        shown = self.context if self.context.chat else f"context={self.context}"
        return (
            f"{shown} exposes the planted canaries more than context=auto, the context of this run: {figures}: pass "
            f"{self.context.option} to attack them in that context"
        )

    def _figures(self) -> str:
        return (
            f"about {self.planted[1]:.1f} bits instead of {self.planted[0]:.1f} (controls: {self.controls[1]:.1f} "
            f"and {self.controls[0]:.1f}; AUC {self.auc[1]:.2f} instead of {self.auc[0]:.2f}; p = {self.p_value:.1g}, "
            f"{self.counts[0]} planted and {self.counts[1]} controls)"
        )


def warn_of_clearer_context(target: Any, canaries: Sequence[Canary], more: Sequence[Context] = ()) -> None:
    """Warn once if some context exposes the canaries of a causal model clearly more than the usual one.

    ``more`` contexts are checked in addition to the three in :data:`CONTEXTS`.
    """
    if not isinstance(target, CausalTarget):
        return
    if (clearer := clearer_context(target, canaries, (*more, *CONTEXTS))) is not None:
        warn_once(f"leakage: {clearer}")


def clearer_context(
    target: CausalTarget, canaries: Sequence[Canary], contexts: Sequence[Context] = CONTEXTS
) -> ClearerContext | None:
    """Return the context in which planted canaries gain most over the usual one, None if no gain is significant.

    The rough exposure of a secret compares its cost with the costs of three random fillings of its own template. If the
    model knows no canary, the change of this exposure from the usual context to another has one distribution for
    planted canaries and controls. A Mann-Whitney test compares the two groups; its level is divided by the number of
    contexts. The groups are the 16 canaries with the most repetitions and 16 controls.
    """
    planted = sorted((canary for canary in canaries if canary.planted), key=lambda canary: -canary.repetitions)[:MOST]
    controls = [canary for canary in canaries if not canary.planted][:MOST]
    level = LEVEL / len(contexts)
    if not contexts or 1 / math.comb(len(planted) + len(controls), len(planted)) > level:
        return None
    compared = [*planted, *controls]
    usual = _exposures_in(target, Context(), compared)
    if usual is None:
        return None
    comparisons = [
        _compared(usual, _exposures_in(target, context, compared), len(planted), context) for context in contexts
    ]
    clearer = [
        context
        for context in comparisons
        if context is not None and context.p_value <= level and context.gain >= LEAST_GAIN
    ]
    best = max(clearer, key=lambda context: context.gain, default=None)
    private = any(canary.kind == NATURAL for canary in compared)
    return None if best is None else replace(best, private=private)


def _exposures_in(target: CausalTarget, context: Context, canaries: Sequence[Canary]) -> FloatArray | None:
    """Return the exposures in a context; None if the model or the canaries do not allow the context."""
    try:
        reads_as_usual = not context.is_auto and reads_alike(target, context)
        return None if reads_as_usual else _exposures(target, context, canaries)
    except TargetError:
        return None


def _exposures(target: CausalTarget, context: Context, canaries: Sequence[Canary]) -> FloatArray:
    """Return the rough exposure of each secret in bits, ``[n]``, by a normal distribution of random fillings' costs."""
    views = [CausalInContext(target, context, canary.attack_space) for canary in canaries]
    texts = []
    for canary in canaries:
        space = canary.attack_space
        fillings = [canary.secret, *space.sample(FILLINGS, f"context:{canary.id}")]
        texts.append([space.fill(filling) for filling in fillings])
    costs = costs_together(views, texts)
    others = costs[:, 1:]
    # Three fillings are too few to estimate one canary's spread: pool it over all canaries.
    spread = np.sqrt(others.var(axis=1, ddof=1).mean())
    bits = -stats.norm.logsf((others.mean(axis=1) - costs[:, 0]) / spread) / math.log(2)
    return np.minimum(bits, [math.log2(canary.attack_space.size) for canary in canaries])


def _compared(usual: FloatArray, other: FloatArray | None, planted: int, context: Context) -> ClearerContext | None:
    if other is None or not np.isfinite(usual - other).all():
        return None
    gains = other - usual
    p_value = stats.mannwhitneyu(gains[:planted], gains[planted:], alternative="greater").pvalue
    return ClearerContext(
        context,
        (float(usual[:planted].mean()), float(other[:planted].mean())),
        (float(usual[planted:].mean()), float(other[planted:].mean())),
        (_auc(usual, planted), _auc(other, planted)),
        float(p_value),
        (planted, len(usual) - planted),
    )


def _auc(values: FloatArray, planted: int) -> float:
    others = len(values) - planted
    return float(stats.mannwhitneyu(values[:planted], values[planted:]).statistic) / (planted * others)

"""Whether the model knows the planted canaries better in another context than in the one they are scored in."""

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
"""Canaries, and controls, that are looked at."""
FILLINGS = 3
"""Random fillings of each."""
LEVEL = 0.01
"""How often one of the contexts may seem clearer to a model that knows no canary."""
CLEARLY = 1.0
"""Bits by which the mean must grow besides."""


@dataclass(frozen=True)
class Clearer:
    """A context in which planted secrets are exposed by more; pairs are of the usual one and of this one.

    ``planted`` and ``controls``: mean rough exposures in bits; ``auc``: how well they tell one from the other.
    ``counts`` are the numbers of both. The line goes without the figures where ``private``: some are natural secrets.
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
        """Bits that the planted ones gain more than the controls."""
        return self.planted[1] - self.planted[0] - (self.controls[1] - self.controls[0])

    def __str__(self) -> str:
        """The figures in one line."""
        figures = "clearly" if self.private else self._figures()
        shown = self.context if self.context.chat else f"context={self.context}"
        return (
            f"{shown} exposes the planted canaries by more than context=auto, which this run has: {figures}: pass "
            f"{self.context.option} to attack them there"
        )

    def _figures(self) -> str:
        return (
            f"by some {self.planted[1]:.1f} bits instead of {self.planted[0]:.1f} (controls: {self.controls[1]:.1f} "
            f"and {self.controls[0]:.1f}; AUC {self.auc[1]:.2f} instead of {self.auc[0]:.2f}; p = {self.p_value:.1g}, "
            f"{self.counts[0]} planted and {self.counts[1]} controls)"
        )


def warn_of_clearer(target: Any, canaries: Sequence[Canary], more: Sequence[Context] = ()) -> None:
    """Say once which context exposes the canaries of a causal model by clearly more than the usual one, if any does.

    ``more`` are looked at beside the three that are always.
    """
    if not isinstance(target, CausalTarget):
        return
    if (found := clearer_context(target, canaries, (*more, *CONTEXTS))) is not None:
        warn_once(f"leakage: {found}")


def clearer_context(
    target: CausalTarget, canaries: Sequence[Canary], contexts: Sequence[Context] = CONTEXTS
) -> Clearer | None:
    """The one of ``contexts`` in which planted canaries gain most over the usual one, if that is more than chance.

    A secret's exposure is guessed from how much less it costs than three random fillings of its own template. What that
    changes by, from the usual context to another, has one distribution for planted canaries and controls if the model
    knows neither; the Mann-Whitney test holds them against each other, its level shared by the contexts. The 16
    canaries of most repetitions and 16 controls are looked at.
    """
    planted = sorted((canary for canary in canaries if canary.planted), key=lambda canary: -canary.repetitions)[:MOST]
    controls = [canary for canary in canaries if not canary.planted][:MOST]
    level = LEVEL / len(contexts)
    if not contexts or 1 / math.comb(len(planted) + len(controls), len(planted)) > level:
        return None
    looked_at = [*planted, *controls]
    usual = _in(target, Context(), looked_at)
    if usual is None:
        return None
    found = [_compared(usual, _in(target, context, looked_at), len(planted), context) for context in contexts]
    clearer = [each for each in found if each is not None and each.p_value <= level and each.gain >= CLEARLY]
    best = max(clearer, key=lambda each: each.gain, default=None)
    private = any(each.kind == NATURAL for each in looked_at)
    return None if best is None else replace(best, private=private)


def _in(target: CausalTarget, context: Context, canaries: Sequence[Canary]) -> FloatArray | None:
    """Figures in a context; None where the model or the canaries do not allow it."""
    try:
        alike = not context.is_auto and reads_alike(target, context)
        return None if alike else _exposures(target, context, canaries)
    except TargetError:
        return None


def _exposures(target: CausalTarget, context: Context, canaries: Sequence[Canary]) -> FloatArray:
    """Roughly the exposure of each secret in bits, ``[n]``: by a normal distribution of what random fillings cost."""
    views = [CausalInContext(target, context, canary.attack_space) for canary in canaries]
    texts = []
    for canary in canaries:
        space = canary.attack_space
        fillings = [canary.secret, *space.sample(FILLINGS, f"context:{canary.id}")]
        texts.append([space.fill(filling) for filling in fillings])
    costs = costs_together(views, texts)
    others = costs[:, 1:]
    # Three fillings say little of one canary's spread; those of all canaries together do.
    spread = np.sqrt(others.var(axis=1, ddof=1).mean())
    bits = -stats.norm.logsf((others.mean(axis=1) - costs[:, 0]) / spread) / math.log(2)
    return np.minimum(bits, [math.log2(canary.attack_space.size) for canary in canaries])


def _compared(usual: FloatArray, other: FloatArray | None, planted: int, context: Context) -> Clearer | None:
    if other is None or not np.isfinite(usual - other).all():
        return None
    gains = other - usual
    p_value = stats.mannwhitneyu(gains[:planted], gains[planted:], alternative="greater").pvalue
    return Clearer(
        context,
        (float(usual[:planted].mean()), float(other[:planted].mean())),
        (float(usual[planted:].mean()), float(other[planted:].mean())),
        (_auc(usual, planted), _auc(other, planted)),
        float(p_value),
        (planted, len(usual) - planted),
    )


def _auc(figures: FloatArray, planted: int) -> float:
    others = len(figures) - planted
    return float(stats.mannwhitneyu(figures[:planted], figures[planted:]).statistic) / (planted * others)

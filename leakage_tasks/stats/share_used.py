"""Share of suspected texts that are in the training data, from membership guesses that are corrected for their errors.

Dataset Usage Cardinality Inference (Tong, Ye, Zarifzadeh and Shokri 2025, "How much of my dataset did you use?"): a
rule guesses if text i was used, m_i ∈ {0, 1}. The estimate of one text is p_i = (m_i − FPR)/(TPR − FPR), and the share
is the mean over the suspected texts. Both rates are those of texts whose membership is known. Each half of these is
guessed with the rule of the other half. In the published code, one set chooses the rule and gives its rates, so that
TPR − FPR is too large.

The estimate assumes that suspected texts that were used are guessed as often as known members, and suspected texts that
were not used as often as known non-members. Pure functions of scores; a higher score makes membership more likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray
from leakage_tasks.stats.clusters import clustered_share
from leakage_tasks.stats.dataset_inference import FEWEST_CLUSTERS, Combination
from leakage_tasks.stats.dataset_share import best_threshold
from leakage_tasks.stats.membership import Estimate

STEPS = 2000
"""Number of steps from 0 to 1 of the shares that are tested for an interval."""


class ShareUsed(NamedTuple):
    """The share of suspected texts that were used, and its controls.

    ``of_nonmembers`` is the estimate for known non-members in place of suspected texts, 0 in truth, and ``of_members``
    for known members, 1 in truth; the rates are then those of the other known texts. ``tpr`` and ``fpr`` are the rates.
    """

    share: Estimate
    of_nonmembers: Estimate
    of_members: Estimate
    tpr: Estimate
    fpr: Estimate

    @property
    def controls_hold(self) -> bool:
        """True if the intervals of both controls contain the truth."""
        return self.of_nonmembers.low <= 0 and self.of_members.high >= 1


def share_used(
    scores: Sequence[Sequence[float]],
    members: Sequence[bool],
    suspected: Sequence[bool],
    chooses: Sequence[bool],
    clusters: Sequence[int],
    seed: int = 0,
) -> ShareUsed:
    """Estimate the share of the suspected texts that are in the training data.

    Args:
        scores: The scores of each attack, ``[attacks, n]``.
        members: True for known members, ``[n]``.
        suspected: True for suspected texts, ``[n]``. The other texts are known members or known non-members.
        chooses: The half of each known text, ``[n]``. A half gives a rule: a linear combination of the scores, and the
            threshold with the largest TPR − FPR. Suspected texts are guessed with both rules.
        clusters: The cluster of each text, ``[n]``.
        seed: The random seed of the halves for the controls.

    Returns:
        The share and its controls, each from 0 to 1 with a 95 % interval.

    Raises:
        ValueError: If there are no attacks or suspected texts, if a class has no text in a half or fewer than
            :data:`~.dataset_inference.FEWEST_CLUSTERS` clusters, or if the rules guess members no more often than
            non-members.
    """
    table, inside, unknown, which = np.asarray(scores, np.float64), *map(np.asarray, (members, suspected, clusters))
    if table.ndim != 2 or not len(table) or not unknown.any():
        raise ValueError("no attack has scores, or there are no suspected texts")
    fewest = min(len(np.unique(which[~unknown & of])) for of in (inside, ~inside))
    if fewest < FEWEST_CLUSTERS:
        raise ValueError(f"a class has {fewest} clusters of known texts: {FEWEST_CLUSTERS} or more are needed")
    guesses = _guesses(table, inside, unknown, np.asarray(chooses))

    def rate(of: BoolArray) -> Estimate:
        values = guesses[of]
        return Estimate(float(values.mean()), *clustered_share(values.tolist(), which[of].tolist()))

    def share(of: BoolArray, known: BoolArray) -> Estimate:
        mixed = bool(np.isin(which[known & inside], which[known & ~inside]).any())
        return corrected_share(rate(of), rate(known & inside), rate(known & ~inside), mixed)

    # Half of the known clusters are the controls, and the others give the rates for them.
    held = ~unknown & _half(which, inside, ~unknown, np.random.default_rng([seed, 4]))
    zero, one = (share(held & of, ~unknown & ~held) for of in (~inside, inside))
    return ShareUsed(share(unknown, ~unknown), zero, one, rate(~unknown & inside), rate(~unknown & ~inside))


def _guesses(table: FloatArray, inside: BoolArray, unknown: BoolArray, chooses: BoolArray) -> FloatArray:
    """Return 1 for a text that is guessed to be a member, else 0, ``[n]``; the mean of both rules for suspected texts.

    Raises ValueError if a class has no text in a half.
    """
    guesses = np.zeros(len(inside))
    for half in (chooses, ~chooses):
        fitted = ~unknown & half
        if len(np.unique(inside[fitted])) < 2:
            raise ValueError("a class has no text in one half")
        rule = Combination.fitted(table[:, fitted], inside[fitted])
        hits = rule.of(table) > best_threshold(rule.of(table[:, fitted]), inside[fitted])
        guesses[~unknown & ~half] = hits[~unknown & ~half]
        guesses[unknown] += hits[unknown] / 2
    return guesses


def _half(which: IntArray, inside: BoolArray, known: BoolArray, generator: np.random.Generator) -> BoolArray:
    """Return a random half of the clusters of each class in ``known``, as a mask of texts ``[n]``."""
    with_members = np.unique(which[known & inside])
    others = np.setdiff1d(which[known], with_members)
    chosen = [generator.permutation(clusters)[: len(clusters) // 2] for clusters in (with_members, others)]
    return np.isin(which, np.concatenate(chosen))


def corrected_share(guessed: Estimate, tpr: Estimate, fpr: Estimate, mixed: bool = False) -> Estimate:
    """Return (g − FPR)/(TPR − FPR) from 0 to 1, with its interval.

    The interval holds every share p for which g − p·TPR − (1 − p)·FPR may be 0, by the method of Zou and Donner
    (Statistics in Medicine 27 (2008) 1693): the distances from the three rates to the ends of their intervals are added
    as squares. So it has a sense for rates that hardly differ, too: it is then long. It is 0 to 1 if no share fits.

    Args:
        guessed: Share g of the suspected texts that are guessed to be members, with its interval.
        tpr: The true positive rate.
        fpr: The false positive rate.
        mixed: True if both rates are of the same clusters and may err together; their distances are then added.

    Raises:
        ValueError: If the true positive rate is not above the false positive rate.
    """
    if tpr.value <= fpr.value:
        raise ValueError(
            f"the rule guesses {100 * tpr.value:.0f} % of members and {100 * fpr.value:.0f} % of non-members"
        )
    shares = np.linspace(0, 1, STEPS + 1)
    gap = guessed.value - shares * tpr.value - (1 - shares) * fpr.value

    def distance(rise: float, of_members: float, of_others: float) -> FloatArray:
        first, second = shares * of_members, (1 - shares) * of_others
        return np.sqrt(rise**2 + ((first + second) ** 2 if mixed else first**2 + second**2))

    below = distance(guessed.value - guessed.low, tpr.high - tpr.value, fpr.high - fpr.value)
    above = distance(guessed.high - guessed.value, tpr.value - tpr.low, fpr.value - fpr.low)
    fits = np.nonzero((gap - below <= 0) & (gap + above >= 0))[0]
    value = float(np.clip((guessed.value - fpr.value) / (tpr.value - fpr.value), 0, 1))
    # One step more on both sides, so that rounding to steps shortens no interval.
    low, high = (max(0, fits[0] - 1), min(STEPS, fits[-1] + 1)) if len(fits) else (0, STEPS)
    return Estimate(value, float(shares[low]), float(shares[high]))

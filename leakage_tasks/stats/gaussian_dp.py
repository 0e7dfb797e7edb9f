"""Lower bounds on Gaussian differential privacy (μ-GDP) from one training run, and their conversion to (ε, δ).

A training is μ-GDP if no test distinguishes two neighbouring data sets better than a test distinguishes N(0, 1) from
N(μ, 1) (Dong, Roth and Su, "Gaussian Differential Privacy", 2019). The trade-off curve of DP-SGD is close to such a
curve. A bound on μ is larger than one on ε alone, because it uses that the guarantee is not worse at any other δ.
Group privacy: what is μ-GDP for one row is kμ-GDP for k rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from scipy import optimize, special

from leakage_tasks.stats.epsilon import ALPHA
from leakage_tasks.stats.intervals import clopper_pearson

MOST_ROOT = 1e6
"""Value from which a root is not sought any further."""


def epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest ε for which every μ-GDP training is (ε, δ)-DP (Dong, Roth and Su 2019, Corollary 2.13).

    Raises ValueError unless 0 < δ < 1, since no μ above 0 has a finite ε at δ = 0.
    """
    if not 0 < delta < 1:
        raise ValueError(f"δ is {delta}: a bound from Gaussian differential privacy needs a δ between 0 and 1")
    if mu <= 0:
        return 0.0

    def excess(epsilon: float) -> float:
        # Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2), as a logarithm, which keeps its digits where both terms are tiny.
        first = float(special.log_ndtr(-epsilon / mu + mu / 2))
        second = epsilon + float(special.log_ndtr(-epsilon / mu - mu / 2))
        return first + math.log(-math.expm1(min(second - first, -1e-300))) - math.log(delta)

    if excess(0.0) <= 0:
        return 0.0
    return _root(excess)


def one_run_mu(right: int, guesses: int, canaries: int, alpha: float = ALPHA) -> float:
    """Return the largest μ that the number of right guesses rejects; 0 if it rejects no μ.

    The test is that of Mahloujifar, Melis and Chaudhuri, "Auditing f-Differential Privacy in One Run" (2024), for
    coins with two sides: under f-DP, the probabilities of right and of wrong guesses are limited by each other, and a
    recursion over the number of right guesses finds if they can add up.

    Args:
        right: Number of right guesses.
        guesses: Number of guesses.
        canaries: Number of coins: canaries that were included or left out, or pairs of which one was planted.
        alpha: Probability with which the bound may exceed the true μ.

    Returns:
        The lower bound on μ.

    Raises:
        ValueError: The counts contradict each other.
    """
    if not 0 <= right <= guesses <= canaries:
        raise ValueError(f"{right} right of {guesses} guesses about {canaries} canaries: not a result")
    if not right or not _rejected(0.0, right, guesses, canaries, alpha):
        return 0.0
    return _root(lambda mu: 1.0 if _rejected(mu, right, guesses, canaries, alpha) else -1.0)


def _rejected(mu: float, right: int, guesses: int, canaries: int, alpha: float) -> bool:
    """Return True if ``right`` or more right guesses have a probability below ``alpha`` under μ-GDP.

    ``well`` and ``badly`` are the shares of canaries that are guessed right and wrong, each times the probability of
    at least ``left`` right guesses, for ``left`` from ``right`` down to 0.
    """
    well, badly = alpha * right / canaries, alpha * (guesses - right) / canaries
    for left in range(right - 1, -1, -1):
        least = float(special.ndtr(special.ndtri(well) - mu)) if well < 1 else 1.0
        if least <= badly:
            break
        well = min(1.0, well + left / (guesses - left) * (least - badly))
        badly = least
    return well + badly > guesses / canaries


def mu_of_rates(counts: Iterable[tuple[int, int]], members: int, others: int, alpha: float) -> float:
    """Return the largest lower bound on μ from false negatives and false positives at several thresholds.

    Each rate has a one-sided Clopper-Pearson limit at level ``alpha`` / 2, divided by the number of thresholds. The
    bound holds if the scores of the canaries are independent, as from as many training runs (Nasr et al., "Tight
    Auditing of Differentially Private Machine Learning", 2023).

    Args:
        counts: False negatives and false positives at each threshold.
        members: Number of planted canaries.
        others: Number of controls.
        alpha: Probability with which the bound may exceed the true μ.

    Returns:
        The bound, 0 or more.
    """
    pairs = list(counts)
    level = 1 - alpha / max(1, len(pairs))
    bounds = [
        -special.ndtri(clopper_pearson(positive, others, level)[1])
        - special.ndtri(clopper_pearson(negative, members, level)[1])
        for negative, positive in pairs
    ]
    return max([0.0, *(float(bound) for bound in bounds if math.isfinite(bound))])


def _root(excess: Callable[[float], float]) -> float:
    """Return where a decreasing function that is positive at 0 becomes 0, or a number above :data:`MOST_ROOT`."""
    above = 1.0
    while excess(above) > 0:
        above *= 2
        if above > MOST_ROOT:
            return above
    return float(optimize.brentq(excess, 0.0, above, xtol=1e-9))

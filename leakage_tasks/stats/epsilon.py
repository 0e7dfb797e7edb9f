"""Empirical lower bounds on ε of differential privacy from one training run, as pure functions of counts.

**Swaps.** The canaries form m pairs of exchangeable twins. A fair coin decided which twin of each pair was planted. A
guess at the planted twin is post-processing of the model. Neighbouring data sets differ in one swap: all copies of a
canary are replaced by its twin. Under ε-DP the posterior odds of a coin are at most e^ε for all values of the other
coins. So a guess is right with probability e^ε/(1 + e^ε) or less, and a binomial variable dominates the number of
right guesses. (ε, δ)-DP adds a small term (Steinke, Nasr and Jagielski, "Privacy Auditing with One (1) Training Run",
2023, Corollary 5.4 and Appendix D). In their paper a coin includes or excludes a canary. The proof uses only that
flipping one coin gives a neighbouring data set.

**Rows.** Swapping a canary with R copies removes R rows and adds R rows. By group privacy, (ε, δ)-DP for one row is
(kε, δ·(e^{kε} − 1)/(e^ε − 1))-DP for k = 2R rows.

**Secrets.** See :func:`secret_bound`.

All bounds hold with 95 % confidence over coins or secrets and training. The true ε may be much larger than a bound.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, special, stats

from leakage_tasks.stats.intervals import LEVEL

ALPHA = 1 - LEVEL
"""Probability with which a bound may be above the true ε."""
MOST_PAIRS = 1000
"""Largest number of pairs that :func:`fewest_pairs` tries."""


def p_value(right: int, guesses: int, pairs: int, epsilon: float, delta: float = 0.0) -> float:
    """Return the largest probability under (ε, δ)-DP of ``right`` or more right guesses.

    The formula is β + 2mδ·max_i P[v > W ≥ v − i] / i with v = ``right``, m = ``pairs`` and β = P[W ≥ v]. W is binomial
    with ``guesses`` trials of probability 1/(1 + e^−ε).

    Args:
        right: Number of right guesses.
        guesses: Number of guesses; a pair may have no guess.
        pairs: Number of pairs.
        epsilon: ε of the privacy guarantee.
        delta: δ of the privacy guarantee.

    Returns:
        A p-value for the hypothesis that training is (ε, δ)-DP, at most 1.
    """
    chance = float(special.expit(epsilon))
    beta = float(stats.binom.sf(right - 1, guesses, chance))
    if not delta or not right:
        return min(1.0, beta)
    below = stats.binom.pmf(np.arange(right - 1, -1, -1), guesses, chance).cumsum()
    alpha = float((below / np.arange(1, right + 1)).max())
    return min(1.0, beta + 2 * pairs * delta * alpha)


def swap_bound(right: int, guesses: int, pairs: int, delta: float = 0.0, rows: int = 1, alpha: float = ALPHA) -> float:
    """Return the largest ε that the number of right guesses rejects; 0 if it rejects no ε.

    Args:
        right: Number of right guesses.
        guesses: Number of guesses.
        pairs: Number of pairs of twins.
        delta: δ of the privacy guarantee.
        rows: Number of rows that a swap of twins adds or removes. With 1, ε bounds a swap; with 2R, for canaries
            planted R times, ε bounds one row added or removed.
        alpha: Probability with which the bound may exceed the true ε.

    Returns:
        The lower bound on ε.

    Raises:
        ValueError: The counts contradict each other, or δ is not in [0, 1).
    """
    if not (0 <= right <= guesses <= pairs and rows >= 1 and 0 <= delta < 1):
        raise ValueError(
            f"{right} right of {guesses} guesses about {pairs} pairs, {rows} rows, δ = {delta}: not a result"
        )
    most = _pure(right, guesses, alpha) / rows

    def excess(epsilon: float) -> float:
        return p_value(right, guesses, pairs, rows * epsilon, group_delta(epsilon, rows, delta)) - alpha

    if not delta or not most or excess(most) <= 0:
        return most
    return 0.0 if excess(0.0) >= 0 else float(optimize.brentq(excess, 0.0, most))


def _pure(right: int, guesses: int, alpha: float) -> float:
    """Return the bound at δ = 0: the one-sided exact lower limit of the guesses' accuracy, converted to ε."""
    if not right:
        return 0.0
    return max(0.0, float(special.logit(stats.beta.ppf(alpha, right, guesses - right + 1))))


def group_delta(epsilon: float, rows: int, delta: float) -> float:
    """Return δ for a change of k = ``rows`` rows if a change of one row is (ε, δ)-DP: δ·(e^{kε} − 1)/(e^ε − 1)."""
    return delta * (math.expm1(rows * epsilon) / math.expm1(epsilon) if epsilon else rows)


def fewest_pairs(delta: float = 0.0, rows: int = 1) -> int | None:
    """Return the fewest pairs that reject some ε above 0 if all guesses are right; None if more than 1,000."""
    counts = range(1, MOST_PAIRS)
    return next((pairs for pairs in counts if p_value(pairs, pairs, pairs, 0.0, rows * delta) < ALPHA), None)


def secret_bound(first: int, canaries: int, log_others: float) -> float:
    """Return the largest ε rejected by the number of secrets at rank 1 among all their values; 0 if it rejects no ε.

    Neighbouring data sets differ in one canary's secret, changed in all its copies, and δ is 0. With a uniform prior
    the posterior odds of any two values are at most e^ε. If the value at rank 1 has posterior p, each of the N − 1
    others has p·e^−ε or more, so p ≤ e^ε/(e^ε + N − 1). This holds given all other secrets, so a binomial variable
    with this probability dominates ``first``. At most one value has rank 1: ties count against the secret.

    Args:
        first: Number of secrets at rank 1.
        canaries: Number of canaries.
        log_others: ln(N − 1), with N the number of values that a secret may have.

    Returns:
        The lower bound on ε.

    Raises:
        ValueError: ``first`` is negative or exceeds ``canaries``.
    """
    if not 0 <= first <= canaries:
        raise ValueError(f"{first} of {canaries} canaries: not a result")
    if not first:
        return 0.0
    chance = float(stats.beta.ppf(ALPHA, first, canaries - first + 1))
    return max(0.0, float(special.logit(chance)) + log_others)

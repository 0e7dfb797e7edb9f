"""Empirical lower bounds on ε of differential privacy from one training run, as pure functions of counts.

**Swaps.** Of m pairs of exchangeable canaries one each was planted: given the pairs, by a fair coin. Guessing which is
post-processing of the model. Under ε-DP with regard to swapping a canary, all its copies, for its twin, the posterior
odds of a coin are at most e^ε whatever the other coins are, so a guess is right with probability e^ε/(1 + e^ε) or less,
and the number of right guesses is dominated by a binomial variable. (ε, δ)-DP adds a small term (Steinke, Nasr and
Jagielski, "Privacy Auditing with One (1) Training Run", 2023, Corollary 5.4 and Appendix D). There a coin includes a
canary or leaves it out; all that the proof uses is that flipping one coin gives a neighbouring data set.

**Rows.** A swap of a canary with R copies takes R rows away and adds R. By group privacy (ε, δ)-DP for one row is
(kε, δ·(e^{kε} − 1)/(e^ε − 1))-DP for k = 2R of them.

**Secrets.** See :func:`secret_bound`.

All bounds hold with 95 % confidence over coins or secrets and training; none says how much larger ε is.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, special, stats

from leakage_tasks.stats.intervals import LEVEL

ALPHA = 1 - LEVEL
"""Probability with which a bound may be above the true ε."""
MOST_PAIRS = 1000
"""Where :func:`fewest_pairs` gives up."""


def p_value(right: int, guesses: int, pairs: int, epsilon: float, delta: float = 0.0) -> float:
    """Largest probability of ``right`` or more right guesses under (ε, δ)-DP, of ``guesses`` about ``pairs`` pairs.

    β + 2mδ·max_i P[v > W ≥ v − i] / i, where β = P[W ≥ v] and W is binomial with r trials of chance 1/(1 + e^−ε).
    """
    chance = float(special.expit(epsilon))
    beta = float(stats.binom.sf(right - 1, guesses, chance))
    if not delta or not right:
        return min(1.0, beta)
    below = stats.binom.pmf(np.arange(right - 1, -1, -1), guesses, chance).cumsum()
    alpha = float((below / np.arange(1, right + 1)).max())
    return min(1.0, beta + 2 * pairs * delta * alpha)


def swap_bound(right: int, guesses: int, pairs: int, delta: float = 0.0, rows: int = 1, alpha: float = ALPHA) -> float:
    """The largest ε that so many right guesses reject, for swaps of a canary for its twin; 0 if none.

    Of one row added or removed where a swap is ``rows`` of those. Raises ValueError for counts and δ that cannot be.
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
    """The bound at δ = 0: the one-sided exact lower limit of the guesses' chance, as ε."""
    if not right:
        return 0.0
    return max(0.0, float(special.logit(stats.beta.ppf(alpha, right, guesses - right + 1))))


def group_delta(epsilon: float, rows: int, delta: float) -> float:
    """δ for ``rows`` rows at once where one row is (ε, δ)-DP: δ·(e^{kε} − 1)/(e^ε − 1)."""
    return delta * (math.expm1(rows * epsilon) / math.expm1(epsilon) if epsilon else rows)


def fewest_pairs(delta: float = 0.0, rows: int = 1) -> int | None:
    """The fewest pairs that can reject any ε above 0, all guesses being right; None where no number can."""
    counts = range(1, MOST_PAIRS)
    return next((pairs for pairs in counts if p_value(pairs, pairs, pairs, 0.0, rows * delta) < ALPHA), None)


def secret_bound(first: int, canaries: int, log_others: float, alpha: float = ALPHA) -> float:
    """The largest ε rejected by ``first`` of ``canaries`` secrets at rank 1 among all their values; 0 if none.

    For ε-DP (δ = 0) with regard to changing one canary's secret in all its copies. ``log_others`` is ln(N − 1), N being
    how many values a secret may have. A uniform prior makes the posterior odds of any two values e^ε or less, so the
    posterior p of the value put first leaves each of the N − 1 others p·e^−ε or more: p ≤ e^ε/(e^ε + N − 1). That holds
    given all other secrets, so ``first`` is dominated by a binomial variable of that chance. At most one value may have
    rank 1: ties count against the secret. Raises ValueError for counts that cannot be.
    """
    if not 0 <= first <= canaries:
        raise ValueError(f"{first} of {canaries} canaries: not a result")
    if not first:
        return 0.0
    chance = float(stats.beta.ppf(alpha, first, canaries - first + 1))
    return max(0.0, float(special.logit(chance)) + log_others)

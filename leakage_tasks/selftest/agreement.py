"""The check that intervals of estimated ranks agree with a uniform sample of whole texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy import stats

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.selftest.chance import interval_of, log_noise
from leakage_tasks.selftest.rows import SelfTestRow, judged, skipped
from leakage_tasks.selftest.subject import Subject

NAME = "estimates' intervals"
LEVEL = 0.005
"""Probability of a false alarm."""
MISSES = 0.05
"""Share of correct comparisons that count as a miss."""
LOW, AGREE, HIGH = -1, 0, 1
GRID = stats.norm.ppf((np.arange(400) + 0.5) / 400)
"""Equally likely standard normal values, used to average over noise."""


def check(subject: Subject) -> SelfTestRow:
    """Compare each canary's rank, estimated by importance sampling, with a separate uniform sample of whole texts."""
    if subject.labelled:
        return skipped(NAME, "ranks by class loss are exact counts or come from a uniform sample")
    if not subject.searched:
        return skipped(NAME, "the model gives no next-token probabilities; ranks come from a uniform sample")
    ranked = subject.ranked
    if ranked.declined is not None:
        return skipped(NAME, f"no rank is estimated on this template ({ranked.declined})")
    estimates, references = _estimates(subject, ranked.findings), subject.sampled(subject.canaries, "uniform samples")
    stream = np.random.default_rng(subject.settings.seed)
    sides = Counter(
        side(estimate, reference, canary.space.size, float(stream.uniform()))
        for estimate, reference, canary in zip(estimates, references, subject.canaries, strict=True)
    )
    misses, number = sides[LOW] + sides[HIGH], len(estimates)
    p = misses_p(sides[LOW], sides[HIGH], number)
    bounds = sum(estimate.method == "lower_bound" for estimate in estimates)
    draws = max(reference.extra.get("draws", 0) for reference in references)
    against = f"a uniform sample of {draws} whole texts each" if draws else "the exact rank"
    words = (
        f"{number - misses} of {number} estimates agree with {against} ({sides[LOW]} too low, {sides[HIGH]} too high); "
        f"p = {p:.2g} for this many misses on one side"
    )
    words += f"; {bounds} are bounds" if bounds else ""
    figures = {
        "n": number,
        "agree": number - misses,
        "too_low": sides[LOW],
        "too_high": sides[HIGH],
        "p": p,
        "level": LEVEL,
        "samples": draws,
        "bounds": bounds,
        "ranks": [estimate.rank for estimate in estimates],
        "intervals": [[estimate.rank_low, estimate.rank_high] for estimate in estimates],
        "hits": [reference.extra.get("hits") for reference in references],
    }
    return judged(NAME, p >= LEVEL, words, figures, "use attack=rank-sample on this model")


def _estimates(subject: Subject, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, with each exact count replaced by an estimate."""
    counted = [canary for canary, finding in zip(subject.canaries, findings, strict=True) if finding.method == "exact"]
    again = subject.attack(
        "exposure", subject.target, counted, "estimates", subject.settings.budget, {"method": "estimated"}
    )
    estimated = {estimate.canary: estimate for estimate in again}
    return [estimated.get(finding.canary, finding) for finding in findings]


def misses_p(low: int, high: int, number: int) -> float:
    """Return the two-sided p-value of ``low`` and ``high`` misses among ``number`` correct estimates, for the worse
    side."""
    return min(1.0, 2 * float(stats.binom.sf(max(low, high) - 1, number, MISSES / 2)))


def side(estimate: Finding, reference: Finding, size: int, uniform: float) -> int:
    """Return LOW or HIGH if an estimate is too low or too high for the reference, or AGREE.

    An exact reference is compared with the estimate's 95 % interval. A sampled reference has noise of its own. The true
    rank is modelled as log-normal around the estimate, with the estimate's 95 % interval, and the sample's hits as
    binomial. The two agree unless the hits lie in the outer 5 % of this mixture. ``uniform``, a random number, decides
    ties at the edge, so that 5 % of correct estimates miss. A lower bound misses only if the sample has more hits than
    it allows.
    """
    low, rank, high = interval_of(estimate)
    if reference.method == "exact":
        truth = interval_of(reference)[1]
        return int(low > truth) * HIGH + int(high < truth) * LOW
    hits, draws = reference.extra["hits"], reference.extra["draws"]
    if estimate.method == "lower_bound":
        most = min((high - 1) / (size - 1), 1.0)
        return LOW if stats.binom.sf(hits - 1, draws, most) < MISSES / 2 else AGREE
    down, up = log_noise(estimate, size)
    shares = np.minimum((rank - 1) * np.exp(np.where(GRID < 0, down, up) * GRID) / (size - 1), 1.0)
    below = stats.binom.cdf(hits - 1, draws, shares).mean()
    position = below + uniform * stats.binom.pmf(hits, draws, shares).mean()
    return int(position < MISSES / 2) * HIGH + int(position > 1 - MISSES / 2) * LOW

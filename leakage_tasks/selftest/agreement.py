"""Do the intervals of estimated ranks hold what a uniform sample of whole texts says?"""

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
"""Share of honest comparisons that come out as a miss."""
LOW, AGREE, HIGH = -1, 0, 1
GRID = stats.norm.ppf((np.arange(400) + 0.5) / 400)
"""Equally likely normal deviates, to average over."""


def check(subject: Subject) -> SelfTestRow:
    """Each canary's rank estimated by importance draws, against a uniform sample of its own, scored as whole texts."""
    if subject.labelled:
        return skipped(NAME, "ranks by class loss are counted, or come from a uniform sample themselves")
    if not subject.searched:
        return skipped(NAME, "the model gives no next-token probabilities; ranks come from a uniform sample themselves")
    ranked = subject.ranked
    if ranked.declined is not None:
        return skipped(NAME, f"on this template nothing is estimated ({ranked.declined})")
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
        f"as many on one side come by chance with p = {p:.2g}"
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
    return judged(NAME, p >= LEVEL, words, figures, "rank by attack=rank-sample on this model")


def _estimates(subject: Subject, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with an estimate in the place of each exact count."""
    counted = [canary for canary, finding in zip(subject.canaries, findings, strict=True) if finding.method == "exact"]
    again = subject.attack(
        "exposure", subject.target, counted, "estimates", subject.settings.budget, {"method": "estimated"}
    )
    estimated = {found.canary: found for found in again}
    return [estimated.get(finding.canary, finding) for finding in findings]


def misses_p(low: int, high: int, number: int) -> float:
    """Probability that of ``number`` honest estimates so many are too low, or too high, or more, on the worse side."""
    return min(1.0, 2 * float(stats.binom.sf(max(low, high) - 1, number, MISSES / 2)))


def side(estimate: Finding, reference: Finding, size: int, uniform: float) -> int:
    """Whether an estimate is too low or too high for the reference, or agrees with it.

    An exact reference lies in the estimate's 95 % interval or not. A sampled one has its own noise: given the estimate,
    the true rank is taken to spread as a logarithmic normal whose 95 % interval is the estimate's, and the sample's
    hits are binomial. They agree unless the hits fall into the outer 5 % of that mixture; ``uniform``, a random number,
    settles hits at the very edge, so that of honest estimates 5 % miss. Of a bound it is asked alone whether the sample
    has more hits than it allows.
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
    place = below + uniform * stats.binom.pmf(hits, draws, shares).mean()
    return int(place < MISSES / 2) * HIGH + int(place > 1 - MISSES / 2) * LOW

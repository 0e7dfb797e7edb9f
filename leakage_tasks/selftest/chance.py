"""Self-test check: do canaries that the model never saw have exposures as expected by chance?

Then rank / |R| is uniform on (0, 1]. A Kolmogorov-Smirnov test checks this, also for ranks that are known only within
bounds or with noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy import stats

from leakage_tasks.attacks.causal.search_tree import within
from leakage_tasks.attacks.classifier.class_scores import within as within_loss
from leakage_tasks.attacks.finding import Finding
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.metrics.exposure import chance_exposure
from leakage_tasks.selftest.rows import SelfTestRow, judged, skipped
from leakage_tasks.selftest.subject import Subject

NAME = "controls at chance"
LEVEL = 0.005
"""Probability of a false alarm."""
MOST_TIED = 0.5
MOST_NOISE = 0.5
"""Maximum standard deviation of an estimate's natural logarithm; of a noisier estimate only the interval is used."""
Z = 1.959964
RUNS = 4000
"""Number of simulated runs if shares have noise; the smallest possible p is 1 / (RUNS + 1)."""


@dataclass(frozen=True)
class Share:
    """The share rank / |R| of a canary: between ``low`` and ``high``, with ``noise``.

    ``noise`` is the standard deviation of its natural logarithm, 0 for an exact share. ``bound`` is True if the share
    is only a bound of an estimate.
    """

    low: float
    high: float
    noise: float = 0.0
    bound: bool = False


def check(subject: Subject) -> SelfTestRow:
    """Test that random secrets the model never saw have uniform ranks (The Secret Sharer, Definition 4)."""
    tied = tie_share(subject)
    if tied > MOST_TIED:
        why = "so ranks are not meaningful: give a --template with values that the model knows"
        return skipped(NAME, f"{tied:.0%} of the fillings cost the same, {why}")
    findings, size = subject.ranked.findings, subject.canaries[0].space.size
    shares = [share_of(finding, size, tied) for finding in findings]
    bounds = sum(share.bound for share in shares)
    if 2 * bounds > len(shares):
        return skipped(NAME, f"the ranks of {bounds} of {len(shares)} canaries are only bounds: raise --budget")
    far, p = uniform_p(shares, subject.settings.seed)
    exposures = [float(finding.exposure or 0.0) for finding in findings]
    mean, expected = fmean(exposures), chance_exposure(size)
    words = (
        f"{len(shares)} never planted secrets, mean exposure {mean:.2f} bits (chance: {expected:.2f}); their ranks' "
        f"distance from uniform is {far:.2f} (Kolmogorov-Smirnov), p = {p:.2g}"
    )
    words += f"; {bounds} ranks are only bounds" if bounds else ""
    words += f"; the test allows for ties of up to {tied:.0%} of the fillings" if tied else ""
    figures = {
        "n": len(shares),
        "p": p,
        "distance": far,
        "level": LEVEL,
        "mean_exposure": mean,
        "chance_exposure": expected,
        "bounds": bounds,
        "tied": tied,
        "methods": sorted({str(finding.method) for finding in findings}),
        "exposures": exposures,
    }
    remedy = "the exposures of this model show a fault, not a leak; see which other checks did not hold"
    return judged(NAME, p >= LEVEL, words, figures, remedy)


def tie_share(subject: Subject) -> float:
    """Return the largest share of the probes with a cost equal to that of one probe; 0 if all costs differ."""
    costs = subject.probe_costs
    if len(costs) < 2:
        return 0.0
    bound = within_loss if subject.labelled else within
    slack = np.array([bound(float(cost)) - cost for cost in costs])
    equal = (np.abs(costs[:, None] - costs) <= slack[:, None]).sum(axis=1) - 1
    return float(equal.max() / (len(costs) - 1))


def share_of(finding: Finding, size: int, tied: float = 0.0) -> Share:
    """Return the share rank / |R| of a finding, for ``size`` fillings.

    Tied fillings rank before the secret, so the lower end is reduced by ``tied``, the largest share of equal costs.
    """
    low, rank, high = interval_of(finding)
    if finding.method == "exact":
        return _wider((rank - 1) / size, rank / size, tied)
    if finding.attack != "exposure":
        # The secret and the draws come from one distribution, so each position of the secret is equally likely.
        hits, places = finding.extra["hits"], finding.extra["draws"] + 1
        return _wider(hits / places, (hits + 1) / places, tied)
    if finding.method == "lower_bound":
        return Share((low - 1) / size, min(1.0, high / size), bound=True)
    noise = log_noise(finding, size)[0]
    if noise > MOST_NOISE:
        return _wider((low - 1) / size, min(1.0, high / size), tied)
    return _wider(rank / size, rank / size, tied, noise)


def interval_of(finding: Finding) -> tuple[float, float, float]:
    """Return the low end of a finding's interval, its rank and the high end; all are the rank if it has no interval."""
    assert finding.rank is not None
    low, high = (finding.rank if end is None else end for end in (finding.rank_low, finding.rank_high))
    return float(low), float(finding.rank), float(high)


def log_noise(finding: Finding, size: int) -> tuple[float, float]:
    """Return the standard deviations of an estimate's natural logarithm below and above it, from its 95 % interval.

    An interval that ends at ``size``, the size of the space, is cut off above. Its upper deviation is then at least the
    lower one.
    """
    low, rank, high = (end - 1 for end in interval_of(finding))
    rank = max(rank, 1e-9)
    down, up = (math.log(rank / max(low, rank / 1e3)) / Z, math.log(max(high, rank) / rank) / Z)
    return down, up if high + 1 < size else max(up, down)


def _wider(low: float, high: float, tied: float, noise: float = 0.0) -> Share:
    return Share(max(0.0, low - tied), high, noise)


def distance(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the least Kolmogorov-Smirnov distance from uniform of any values between ``low`` and ``high``.

    Both have shape ``[…, n]``, the distance ``[…]``. If they are equal, the distance is the usual test statistic.
    """
    low, high = np.sort(low, axis=-1), np.sort(high, axis=-1)
    steps = np.arange(low.shape[-1] + 1) / low.shape[-1]
    over, under = (steps[1:] - high).max(axis=-1), (low - steps[:-1]).max(axis=-1)
    return np.asarray(np.maximum(np.maximum(over, under), 0.0))


def uniform_p(shares: Sequence[Share], seed: int) -> tuple[float, float]:
    """Return the distance of ``shares`` from uniform, and the probability of this distance or more for uniform shares.

    Values within the bounds are chosen in favour of uniformity, so p is never too small: an exact rank r may be any
    value in ((r − 1) / |R|, r / |R|], which contains a uniform number even for a small |R|. Shares with noise are
    compared with simulated shares that have this noise and, like estimates of a rank, are at most 1.
    """
    low, high, noise = np.array([(share.low, share.high, share.noise) for share in shares]).T
    observed = float(distance(low, high))
    if not noise.any():
        return observed, float(stats.kstwo.sf(observed, len(shares)))
    stream = np.random.default_rng(seed)
    size = (RUNS, len(shares))
    simulated = np.minimum(stream.uniform(size=size) * np.exp(noise * stream.normal(size=size)), 1.0)
    farther = int((distance(simulated, simulated) >= observed).sum())
    return observed, (farther + 1) / (RUNS + 1)

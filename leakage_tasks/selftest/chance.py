"""The check that canaries the model has never seen have chance exposure.

For such canaries, rank / |R| is uniform on (0, 1]. The check is a Kolmogorov-Smirnov test, which also handles ranks
that are known within bounds or with noise.
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
"""Largest standard deviation of an estimate's natural logarithm; a noisier estimate counts as its interval only."""
Z = 1.959964
RUNS = 4000
"""Simulated runs for noisy shares; the smallest possible p-value is 1 / (RUNS + 1)."""


@dataclass(frozen=True)
class Share:
    """The known range of rank / |R|: between ``low`` and ``high``, up to ``noise``.

    ``noise`` is the standard deviation of its natural logarithm, 0 if the range is certain. ``bound`` is True if only
    the bound of an estimate is known.
    """

    low: float
    high: float
    noise: float = 0.0
    bound: bool = False


def check(subject: Subject) -> SelfTestRow:
    """Test the ranks of never planted secrets, which are uniform on any model (The Secret Sharer, Definition 4)."""
    tied = tie_share(subject)
    if tied > MOST_TIED:
        why = "so ranks have no meaning: give a --template with values that the model knows"
        return skipped(NAME, f"{100 * tied:.0f} % of the fillings have equal costs, {why}")
    findings, size = subject.ranked.findings, subject.canaries[0].space.size
    shares = [share_of(finding, size, tied) for finding in findings]
    bounds = sum(share.bound for share in shares)
    if 2 * bounds > len(shares):
        return skipped(NAME, f"only a bound is known for {bounds} of {len(shares)} canaries: raise --budget")
    far, p = uniform_p(shares, subject.settings.seed)
    exposures = [float(finding.exposure or 0.0) for finding in findings]
    mean, expected = fmean(exposures), chance_exposure(size)
    words = (
        f"{len(shares)} never planted secrets, mean exposure {mean:.2f} bits (chance: {expected:.2f}); their ranks' "
        f"distance from uniform is {far:.2f} (Kolmogorov-Smirnov), p = {p:.2g}"
    )
    words += f"; only a bound is known for {bounds}" if bounds else ""
    words += f"; allows for ties of up to {100 * tied:.0f} % of the fillings" if tied else ""
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
    remedy = "the exposures of this model show a fault, not a leak; see the other failed checks"
    return judged(NAME, p >= LEVEL, words, figures, remedy)


def tie_share(subject: Subject) -> float:
    """Return the largest share of the probes with a cost equal to that of one probe; 0 if all costs differ."""
    costs = subject.probe_costs
    if len(costs) < 2:
        return 0.0
    bound = within_loss if subject.labelled else within
    slack = np.array([bound(float(cost)) - cost for cost in costs])
    ties = (np.abs(costs[:, None] - costs) <= slack[:, None]).sum(axis=1) - 1
    return float(ties.max() / (len(costs) - 1))


def share_of(finding: Finding, size: int, tied: float = 0.0) -> Share:
    """Return the range of rank / |R| for a space of ``size`` fillings; ties rank the secret lower by at most
    ``tied``."""
    low, rank, high = interval_of(finding)
    if finding.method == "exact":
        return _wider((rank - 1) / size, rank / size, tied)
    if finding.attack != "exposure":
        # Among a secret and uniform draws, each position is equally likely.
        hits, places = finding.extra["hits"], finding.extra["draws"] + 1
        return _wider(hits / places, (hits + 1) / places, tied)
    if finding.method == "lower_bound":
        return Share((low - 1) / size, min(1.0, high / size), bound=True)
    noise = log_noise(finding, size)[0]
    if noise > MOST_NOISE:
        return _wider((low - 1) / size, min(1.0, high / size), tied)
    return _wider(rank / size, rank / size, tied, noise)


def interval_of(finding: Finding) -> tuple[float, float, float]:
    """Return the lower end, rank and upper end of a finding; for an exact rank, all three are equal."""
    assert finding.rank is not None
    low, high = (finding.rank if end is None else end for end in (finding.rank_low, finding.rank_high))
    return float(low), float(finding.rank), float(high)


def log_noise(finding: Finding, size: int) -> tuple[float, float]:
    """Return the standard deviations of an estimate's natural logarithm, downwards and upwards, from its 95 % interval.

    An interval that ends at the ``size`` of the space has no information upwards; the downward value is used there if
    it is larger.
    """
    low, rank, high = (end - 1 for end in interval_of(finding))
    rank = max(rank, 1e-9)
    down, up = (math.log(rank / max(low, rank / 1e3)) / Z, math.log(max(high, rank) / rank) / Z)
    return down, up if high + 1 < size else max(up, down)


def _wider(low: float, high: float, tied: float, noise: float = 0.0) -> Share:
    return Share(max(0.0, low - tied), high, noise)


def distance(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the smallest Kolmogorov-Smirnov distance from uniform over all values between ``low`` and ``high``.

    Both have shape ``[…, n]``, the result ``[…]``. If ``low`` equals ``high``, the result is the usual test statistic.
    """
    low, high = np.sort(low, axis=-1), np.sort(high, axis=-1)
    steps = np.arange(low.shape[-1] + 1) / low.shape[-1]
    over, under = (steps[1:] - high).max(axis=-1), (low - steps[:-1]).max(axis=-1)
    return np.asarray(np.maximum(np.maximum(over, under), 0.0))


def uniform_p(shares: Sequence[Share], seed: int) -> tuple[float, float]:
    """Return the distance of ``shares`` from uniform, and the probability that uniform shares are at least as distant.

    Bounds count in favour of uniformity, so p is never too small: an exact rank r covers the interval ((r − 1) / |R|, r
    / |R|], which contains a uniform number even if |R| is small. Noisy shares are compared with simulated shares that
    have equal noise and, like estimated ranks, a maximum of 1.
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

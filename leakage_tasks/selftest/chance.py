"""Are canaries that the model never saw exposed as chance would have it?

Their ranks' shares of the space are then uniform on (0, 1]. A Kolmogorov-Smirnov test tells, also of shares that are
known within bounds, or with noise.
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
"""Of an estimate's natural logarithm; one that is noisier is taken for no more than its interval."""
Z = 1.959964
RUNS = 4000
"""Runs simulated where shares are noisy: the least p that can be told apart from 0 is one of so many."""


@dataclass(frozen=True)
class Share:
    """What is known of rank / |R|: it lies between ``low`` and ``high``, up to ``noise``.

    ``noise`` is the standard deviation of its natural logarithm, 0 for what is certain. ``bound`` marks a share that
    is known no better than by the bound of an estimate.
    """

    low: float
    high: float
    noise: float = 0.0
    bound: bool = False


def check(subject: Subject) -> SelfTestRow:
    """A random secret that was never shown has a uniform rank (The Secret Sharer, Definition 4), on any model."""
    tied = tie_share(subject)
    if tied > MOST_TIED:
        why = "so that ranks say nothing: give a --template of values that the model knows"
        return skipped(NAME, f"{tied:.0%} of the fillings cost the same, {why}")
    findings, size = subject.ranked.findings, subject.canaries[0].space.size
    shares = [share_of(finding, size, tied) for finding in findings]
    bounds = sum(share.bound for share in shares)
    if 2 * bounds > len(shares):
        return skipped(NAME, f"of {bounds} of {len(shares)} canaries no more than a bound is known: raise --budget")
    far, p = uniform_p(shares, subject.settings.seed)
    exposures = [float(finding.exposure or 0.0) for finding in findings]
    mean, expected = fmean(exposures), chance_exposure(size)
    words = (
        f"{len(shares)} never planted secrets, mean exposure {mean:.2f} bits (chance: {expected:.2f}); their ranks' "
        f"distance from uniform is {far:.2f} (Kolmogorov-Smirnov), p = {p:.2g}"
    )
    words += f"; of {bounds} only a bound is known" if bounds else ""
    words += f"; ties of up to {tied:.0%} of the fillings allowed for" if tied else ""
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
    remedy = "the exposures of this model show a fault, not a leak; see what else did not hold"
    return judged(NAME, p >= LEVEL, words, figures, remedy)


def tie_share(subject: Subject) -> float:
    """The largest share of the probes that cost the same as one of them, 0 where all differ."""
    costs = subject.probe_costs
    if len(costs) < 2:
        return 0.0
    bound = within_loss if subject.labelled else within
    slack = np.array([bound(float(cost)) - cost for cost in costs])
    alike = (np.abs(costs[:, None] - costs) <= slack[:, None]).sum(axis=1) - 1
    return float(alike.max() / (len(costs) - 1))


def share_of(found: Finding, size: int, tied: float = 0.0) -> Share:
    """What a finding tells of rank / |R|, of ``size`` fillings; ties count against the secret, by up to ``tied``."""
    low, rank, high = interval_of(found)
    if found.method == "exact":
        return _wider((rank - 1) / size, rank / size, tied)
    if found.attack != "exposure":
        # Of a secret and so many others, all drawn alike, each place is as likely.
        hits, places = found.extra["hits"], found.extra["draws"] + 1
        return _wider(hits / places, (hits + 1) / places, tied)
    if found.method == "lower_bound":
        return Share((low - 1) / size, min(1.0, high / size), bound=True)
    noise = log_noise(found, size)[0]
    if noise > MOST_NOISE:
        return _wider((low - 1) / size, min(1.0, high / size), tied)
    return _wider(rank / size, rank / size, tied, noise)


def interval_of(found: Finding) -> tuple[float, float, float]:
    """A finding's rank between the ends of its interval, which an exact one has not."""
    assert found.rank is not None
    low, high = (found.rank if end is None else end for end in (found.rank_low, found.rank_high))
    return float(low), float(found.rank), float(high)


def log_noise(found: Finding, size: int) -> tuple[float, float]:
    """Standard deviations of an estimate's natural logarithm, downwards and upwards, as its 95 % interval has them.

    An interval that ends at the ``size`` of the space tells nothing upwards, where it is taken to be as wide as down.
    """
    low, rank, high = (end - 1 for end in interval_of(found))
    rank = max(rank, 1e-9)
    down, up = (math.log(rank / max(low, rank / 1e3)) / Z, math.log(max(high, rank) / rank) / Z)
    return down, up if high + 1 < size else max(up, down)


def _wider(low: float, high: float, tied: float, noise: float = 0.0) -> Share:
    return Share(max(0.0, low - tied), high, noise)


def distance(low: FloatArray, high: FloatArray) -> FloatArray:
    """The least Kolmogorov-Smirnov distance from uniform of any values between ``low`` and ``high``.

    Both are ``[…, n]``, the distance ``[…]``. For values that are known, both the same, it is the test's own statistic.
    """
    low, high = np.sort(low, axis=-1), np.sort(high, axis=-1)
    steps = np.arange(low.shape[-1] + 1) / low.shape[-1]
    over, under = (steps[1:] - high).max(axis=-1), (low - steps[:-1]).max(axis=-1)
    return np.asarray(np.maximum(np.maximum(over, under), 0.0))


def uniform_p(shares: Sequence[Share], seed: int) -> tuple[float, float]:
    """Distance of ``shares`` from uniform, and the probability that uniform ones are so far from it or farther.

    Bounds are taken in favour of uniformity, so that p is never too small for them: a rank r of an exact count stands
    for the whole of ((r − 1) / |R|, r / |R|], which holds a uniform number even where |R| is small. Shares with noise
    are held against simulated ones that have the same noise and, as estimates of a rank, end at 1.
    """
    low, high, noise = np.array([(share.low, share.high, share.noise) for share in shares]).T
    found = float(distance(low, high))
    if not noise.any():
        return found, float(stats.kstwo.sf(found, len(shares)))
    stream = np.random.default_rng(seed)
    size = (RUNS, len(shares))
    simulated = np.minimum(stream.uniform(size=size) * np.exp(noise * stream.normal(size=size)), 1.0)
    farther = int((distance(simulated, simulated) >= found).sum())
    return found, (farther + 1) / (RUNS + 1)

"""What is told of a natural secret: so little that nobody can tell by it a right guess from a wrong one of its band.

Whoever has the model and the text before the secret can compute what the attack computes of any guess, and keep the
guesses of which the same comes out. So all that depends on the secret goes through one and the same function of its
rank, the band.
"""

from __future__ import annotations

import dataclasses
import math

from leakage_tasks.attacks.finding import BANDED, EXTRAPOLATED, FIT, GUESSES, AttackResult, Finding

BAND = 10.0
"""Ranks 1 to 10 are one band, those up to 100 the next, and so on: 3.3 bits each. The guesses kept are the first."""
SLACK = math.sqrt(2)
"""By this factor an estimated rank may be off, either way. Exact ones are told with it too: which they are would tell
on which side of the budget they lie."""
NATURAL = "natural"


def coarsened(found: Finding) -> Finding:
    """A finding as it may be shown: of a natural secret the band alone, of any other all of it.

    ``rank``, with its interval and exposure, is that of the band. Without one, ``place`` is 10 for 1 to 10 and
    ``extra["ranked"]`` says whether so many guesses were made, as without them the place is not told. Where an estimate
    may be further off than its band allows for, the exposure is a lower bound. Costs, guesses, right slots, and what
    grows until a secret is met (model calls, seconds, nodes) are not told. Nor is the noise: it grows with its tokens.
    """
    if found.kind != NATURAL or found.coarse:
        return found
    told = _ranked(found) if found.rank is not None else _placed(found)
    bare = dataclasses.replace(found, guesses=(), proven=0, correct=None, log_perplexity=None, place=None, extra={})
    bare = dataclasses.replace(bare, model_calls=None, seconds=None, noise_bits=None, coarse=True)
    return dataclasses.replace(bare, **told)


def _ranked(found: Finding) -> AttackResult:
    """The band of a rank; of an extrapolated one with its fit."""
    size = 2.0**found.log2_size
    if not _sure(found):
        most = min(size, _band(found.rank_high or found.rank or size)[1])
        return {"rank": most, "rank_low": 1.0, "rank_high": most, "method": "lower_bound"}
    first, last = _band(found.rank or size)
    last = min(size, last)
    rank = mean_rank(first, last)
    told: AttackResult = {"rank": rank, "rank_low": max(1.0, first / SLACK), "rank_high": min(size, last * SLACK)}
    if found.method != EXTRAPOLATED:
        return {**told, "method": BANDED}
    fit = {name: found.extra[name] for name in FIT} | {EXTRAPOLATED: found.log2_size - math.log2(rank)}
    return {**told, "extra": fit | {name: _rounded(fit[name]) for name in ("ks", "p_value")}}


def _sure(found: Finding) -> bool:
    """Whether the rank's interval leaves its band by no more than is allowed for, which a fit's is not asked."""
    if found.method in (EXTRAPOLATED, "lower_bound") or found.rank is None:
        return found.method == EXTRAPOLATED
    low, high = found.rank_low or found.rank, found.rank_high or found.rank
    return found.rank <= low * SLACK and high <= found.rank * SLACK


def _band(rank: float) -> tuple[float, float]:
    """The ends of a rank's band; a rank of 10, give or take rounding, is in the first."""
    place = max(1, math.ceil(math.log(rank, BAND) - 1e-9))
    return BAND ** (place - 1), BAND**place


def mean_rank(first: float, last: float) -> float:
    """Return the geometric mean of the ranks of a band.

    With it in the place of the rank, secrets that no model saw have the mean exposure that they have with exact ranks:
    log2|R| − log2(|R|!) / |R| bits.
    """
    lowest = 1.0 if first <= 1 else first + 1
    highest = max(lowest, last)
    return math.exp((math.lgamma(highest + 1) - math.lgamma(lowest)) / (highest - lowest + 1))


def band_chances(log2_size: float) -> list[tuple[float, float]]:
    """Return for each band of a space the share of its ranks, and its exposure in bits."""
    size, first = 2.0**log2_size, 1.0
    found: list[tuple[float, float]] = []
    while first < size or not found:
        last = min(size, first * BAND)
        lowest = 0.0 if first <= 1 else first
        found.append(((last - lowest) / size, log2_size - math.log2(mean_rank(first, last))))
        first *= BAND
    return found


def _placed(found: Finding) -> AttackResult:
    """Whether the secret is among the ten first guesses, where as many were made."""
    if found.correct is None:
        return {}
    offered = max(len(found.guesses), found.extra.get("ranked", 0))
    if offered < min(GUESSES, 2.0**found.log2_size):
        return {"extra": {"ranked": 0}}
    return {"place": GUESSES if (found.place or math.inf) <= GUESSES else None, "extra": {"ranked": GUESSES}}


def _rounded(value: float) -> float:
    """As many digits as of a figure of the model and the text before the secret are told."""
    return float(f"{value:.1e}")

"""Coarse results on natural secrets, which confirm no individual guess.

A reader who has the model and the text before the secret can repeat the attack's computation for any guess and keep
the guesses whose result equals the published result. Therefore every published value that depends on the secret is a
function of its rank's band alone. The exception is whether an estimate is a bound: with few draws, it depends on the
place in the band.

A run coarsens each finding once, when it leaves the attack (``Hooks.publish``), so that log, bar, journal, samples and
metrics get the coarse finding. Samples of a run with ``reveal=true`` have findings in full; then metrics and reports
coarsen each finding when they read it.
"""

from __future__ import annotations

import dataclasses
import math

from leakage_tasks.attacks.finding import BANDED, EXTRAPOLATED, FIT, GUESSES, AttackResult, Finding

BAND = 10.0
"""Each band ends at a power of 10: ranks 1 to 10, ranks 11 to 100, and so on (3.3 bits each). The guesses that a
finding keeps are the first band."""
SLACK = math.sqrt(2)
"""The factor, up or down, by which an estimated rank may be wrong. Exact ranks get this interval too: otherwise a
reader sees which ranks are exact, and so which are within the budget."""
NATURAL = "natural"


def coarsened(finding: Finding) -> Finding:
    """Return a finding as it may be published: for a natural secret only the band, for any other secret everything.

    ``rank``, its interval and the exposure are computed from the band. If the finding has no rank, ``place`` is 10 for
    places 1 to 10, and ``extra["ranked"]`` is the number of ranked guesses: 10, or 0 if the attack made fewer guesses
    (then there is no place). If an estimate may be further off than its band allows, the exposure is a lower bound.
    Removed are costs, guesses, correct slots, all counts that grow until the secret is reached (model calls, seconds,
    nodes), and the noise, which grows with the number of the secret's tokens.
    """
    if finding.kind != NATURAL or finding.coarse:
        return finding
    published = _ranked(finding) if finding.rank is not None else _place_fields(finding)
    public = dataclasses.replace(finding, guesses=(), proven=0, correct=None, log_perplexity=None, place=None, extra={})
    public = dataclasses.replace(public, model_calls=None, seconds=None, noise_bits=None, coarse=True)
    return dataclasses.replace(public, **published)


def _ranked(finding: Finding) -> AttackResult:
    """Return the band of a rank as fields of a finding; for an extrapolated rank also its fit."""
    size = 2.0**finding.log2_size
    if not _is_within_slack(finding):
        most = min(size, _band(finding.rank_high or finding.rank or size)[1])
        return {"rank": most, "rank_low": 1.0, "rank_high": most, "method": "lower_bound"}
    first, last = _band(finding.rank or size)
    last = min(size, last)
    rank = mean_rank(first, last)
    banded: AttackResult = {"rank": rank, "rank_low": max(1.0, first / SLACK), "rank_high": min(size, last * SLACK)}
    if finding.method != EXTRAPOLATED:
        return {**banded, "method": BANDED}
    fit = {name: finding.extra[name] for name in FIT} | {EXTRAPOLATED: finding.log2_size - math.log2(rank)}
    return {**banded, "extra": fit | {name: _rounded(fit[name]) for name in ("ks", "p_value")}}


def _is_within_slack(finding: Finding) -> bool:
    """Return True if both ends of the rank's interval are within a factor of :data:`SLACK` of the rank.

    Extrapolated ranks are not checked.
    """
    if finding.method in (EXTRAPOLATED, "lower_bound") or finding.rank is None:
        return finding.method == EXTRAPOLATED
    low, high = finding.rank_low or finding.rank, finding.rank_high or finding.rank
    return finding.rank <= low * SLACK and high <= finding.rank * SLACK


def _band(rank: float) -> tuple[float, float]:
    """Return the ends of a rank's band; a rank of 10, up to rounding, is in the first band."""
    band = max(1, math.ceil(math.log(rank, BAND) - 1e-9))
    return BAND ** (band - 1), BAND**band


def mean_rank(first: float, last: float) -> float:
    """Return the geometric mean of the ranks of a band.

    If it replaces the exact rank, the mean exposure of secrets that the model never saw does not change: it stays
    log2|R| − log2(|R|!) / |R| bits.
    """
    lowest = 1.0 if first <= 1 else first + 1
    highest = max(lowest, last)
    return math.exp((math.lgamma(highest + 1) - math.lgamma(lowest)) / (highest - lowest + 1))


def band_chances(log2_size: float) -> list[tuple[float, float]]:
    """Return the share of the ranks and the exposure in bits for each band of a space."""
    size, first = 2.0**log2_size, 1.0
    bands: list[tuple[float, float]] = []
    while first < size or not bands:
        last = min(size, first * BAND)
        lowest = 0.0 if first <= 1 else first
        bands.append(((last - lowest) / size, log2_size - math.log2(mean_rank(first, last))))
        first *= BAND
    return bands


def _place_fields(finding: Finding) -> AttackResult:
    """Return fields of a finding that state if the secret is among the first ten guesses, if at least ten were made."""
    if finding.correct is None:
        return {}
    offered = max(len(finding.guesses), finding.extra.get("ranked", 0))
    if offered < min(GUESSES, 2.0**finding.log2_size):
        return {"extra": {"ranked": 0}}
    return {"place": GUESSES if (finding.place or math.inf) <= GUESSES else None, "extra": {"ranked": GUESSES}}


def _rounded(value: float) -> float:
    """Round a statistic to two significant digits; it depends on the model and on the text before the secret."""
    return float(f"{value:.1e}")

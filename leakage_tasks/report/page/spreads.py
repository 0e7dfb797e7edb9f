"""How exposures are spread and how much was extracted, by how often canaries were planted: figures for plots."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from leakage_tasks.metrics.exposure import chance_exposure
from leakage_tasks.report.reading.figures import Figure
from leakage_tasks.report.reading.findings import CanaryDetail
from leakage_tasks.report.reading.format import interval, number
from leakage_tasks.stats.intervals import clopper_pearson

DOTS = 200
"""The most dots a row of exposures has; a row of more canaries shows as many, evenly spaced in order."""
USUAL = math.log2(20)
"""Bits that no more than one in twenty secrets reaches by chance: an exposure of x or more has probability 2^−x."""
LARGE = 50.0
"""log2|R| from which chance no longer depends on it, as far as figures show."""


def exposures(canaries: Iterable[CanaryDetail]) -> dict[str, Any] | None:
    """Rows of exposures, controls first, with chance and the most there can be; None without any.

    Each row has ``label``, ``control``, ``n``, ``dots`` (ascending, bits), ``bounds`` (1 where the exposure is no less
    than its dot) and ``told`` (n, least, quartiles and most, as text).
    """
    found = [(each, each.bits) for each in canaries]
    rated = [(each, bits) for each, bits in found if bits is not None]
    if not rated:
        return None
    sizes = sorted({each.exposure.log2_size for each, _ in rated if each.exposure is not None})
    return {
        "rows": [_row(times, [pair for pair in rated if _times(pair[0]) == times]) for times in _levels(rated)],
        "most": sizes if len(sizes) <= 3 else [sizes[0], sizes[-1]],
        "chance": [_chance(sizes[0]), _chance(sizes[-1])],
        "usual": USUAL,
    }


def repetitions(canaries: Iterable[CanaryDetail]) -> list[dict[str, Any]]:
    """Share extracted by repetitions, controls first, each with its Clopper-Pearson interval; empty without any."""
    tried = [(each, each.extracted) for each in canaries if each.extracted is not None]
    rows = []
    for times in _levels(tried):
        hits = [hit for each, hit in tried if _times(each) == times]
        share, ends = sum(hits) / len(hits), clopper_pearson(sum(hits), len(hits))
        told = f"{number(share)} {interval(Figure(share, *ends))}"
        rows.append(
            {"label": _label(times), "control": times == 0, "n": len(hits), "hits": sum(hits)}
            | {"share": share, "low": ends[0], "high": ends[1], "told": told}
        )
    return rows


def _row(times: int, pairs: Sequence[tuple[CanaryDetail, float]]) -> dict[str, Any]:
    ordered = sorted(pairs, key=lambda pair: pair[1])
    shown = _thinned(ordered) if len(ordered) > DOTS else ordered
    bits = [pair[1] for pair in ordered]
    quartiles = statistics.quantiles(bits, n=4, method="inclusive") if len(bits) > 1 else bits * 3
    return {
        "label": _label(times),
        "control": times == 0,
        "n": len(bits),
        "dots": [round(pair[1], 3) for pair in shown],
        "bounds": [int(_bound(pair[0])) for pair in shown],
        "median": round(quartiles[1], 3),
        "told": [f"{len(bits):,}", *(number(each) for each in (bits[0], *quartiles, bits[-1]))],
    }


def _thinned(pairs: Sequence[tuple[CanaryDetail, float]]) -> list[tuple[CanaryDetail, float]]:
    """As many as are shown: those in the middle of equal parts."""
    return [pairs[(2 * part + 1) * len(pairs) // (2 * DOTS)] for part in range(DOTS)]


def _bound(canary: CanaryDetail) -> bool:
    return canary.exposure is not None and canary.exposure.method == "lower_bound"


def _times(canary: CanaryDetail) -> int:
    return canary.repetitions if canary.planted else 0


def _levels(pairs: Iterable[tuple[CanaryDetail, Any]]) -> list[int]:
    return sorted({_times(canary) for canary, _ in pairs})


def _label(times: int) -> str:
    return "never (controls)" if not times else "once" if times == 1 else f"{times:,} times"


def _chance(log2_size: float) -> float:
    """Mean exposure in bits of a secret that was never shown."""
    return round(chance_exposure(max(1, round(2 ** min(log2_size, LARGE)))), 2)

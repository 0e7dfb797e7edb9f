"""How exposures are spread and how much was extracted, by how often canaries were planted: figures for plots."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.metrics.exposure import chance_exposure
from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.load.figures import Figure
from leakage_tasks.report.load.findings import CanaryDetail
from leakage_tasks.report.load.format import interval, number
from leakage_tasks.stats.intervals import clopper_pearson

Value = TypeVar("Value")
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
    rated = [
        (canary, (canary.exposure.exposure, canary.exposure))
        for canary in canaries
        if canary.exposure is not None and canary.exposure.exposure is not None
    ]
    if not rated:
        return None
    sizes = sorted({ranked.log2_size for _, (_, ranked) in rated})
    # Mean exposure in bits of a secret that was never shown.
    chances = [chance_exposure(max(1, round(2 ** min(size, LARGE)))) for size in (sizes[0], sizes[-1])]
    return {
        "rows": [_row(times, own) for times, own in _by_copies(rated)],
        "most": sizes if len(sizes) <= 3 else [sizes[0], sizes[-1]],
        "chance": [round(chance, 2) for chance in chances],
        "usual": USUAL,
    }


def repetitions(canaries: Iterable[CanaryDetail]) -> list[dict[str, Any]]:
    """Share extracted by repetitions, controls first, each with its Clopper-Pearson interval; empty without any."""
    tried = [(canary, canary.extracted) for canary in canaries if canary.extracted is not None]
    rows = []
    for times, hits in _by_copies(tried):
        share, ends = sum(hits) / len(hits), clopper_pearson(sum(hits), len(hits))
        told = f"{number(share)} {interval(Figure(share, *ends))}"
        row = {"hits": sum(hits), "share": share, "low": ends[0], "high": ends[1], "told": told}
        rows.append(_head(times, len(hits)) | row)
    return rows


def _row(times: int, found: Sequence[tuple[float, Finding]]) -> dict[str, Any]:
    ordered = sorted(found, key=lambda pair: pair[0])
    bits = [pair[0] for pair in ordered]
    # Of many those in the middle of equal parts.
    many = len(ordered) > DOTS
    shown = [ordered[(2 * part + 1) * len(ordered) // (2 * DOTS)] for part in range(DOTS)] if many else ordered
    quartiles = statistics.quantiles(bits, n=4, method="inclusive") if len(bits) > 1 else bits * 3
    return _head(times, len(bits)) | {
        "dots": [round(each, 3) for each, _ in shown],
        "bounds": [int(ranked.method == "lower_bound") for _, ranked in shown],
        "median": round(quartiles[1], 3),
        "told": [f"{len(bits):,}", *(number(each) for each in (bits[0], *quartiles, bits[-1]))],
    }


def _head(times: int, count: int) -> dict[str, Any]:
    label = planted_words(times).removeprefix("planted ") if times else "never (controls)"
    return {"label": label, "control": times == 0, "n": count}


def _by_copies(found: Iterable[tuple[CanaryDetail, Value]]) -> list[tuple[int, list[Value]]]:
    """What there is of the canaries, by how often they were planted, controls first."""
    groups: dict[int, list[Value]] = {}
    for canary, value in found:
        groups.setdefault(canary.repetitions if canary.planted else 0, []).append(value)
    return sorted(groups.items())

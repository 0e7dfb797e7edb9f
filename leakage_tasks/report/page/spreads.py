"""Data of the plots of exposure and of extraction by number of copies."""

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
"""Most dots in a row of exposures; a longer row shows an evenly spaced sample in order."""
USUAL = math.log2(20)
"""Exposure in bits that one in twenty secrets exceeds by chance: x or more has probability 2^−x."""
LARGE = 50.0
"""log2|R| above which the chance exposure no longer changes visibly."""


def exposures(canaries: Iterable[CanaryDetail]) -> dict[str, Any] | None:
    """Return rows of exposures, controls first, with chance and maximum; None without any exposure.

    Each row has ``label``, ``control``, ``n``, ``dots`` (ascending, bits), ``bounds`` (1 for a lower bound) and
    ``texts`` (n, minimum, quartiles and maximum).
    """
    rated = [
        (canary, (canary.exposure.exposure, canary.exposure))
        for canary in canaries
        if canary.exposure is not None and canary.exposure.exposure is not None
    ]
    if not rated:
        return None
    sizes = sorted({ranked.log2_size for _, (_, ranked) in rated})
    # Mean exposure in bits of a secret that the model never saw.
    chances = [chance_exposure(max(1, round(2 ** min(size, LARGE)))) for size in (sizes[0], sizes[-1])]
    return {
        "rows": [_row(times, group) for times, group in _by_copies(rated)],
        "most": sizes if len(sizes) <= 3 else [sizes[0], sizes[-1]],
        "chance": [round(chance, 2) for chance in chances],
        "usual": USUAL,
    }


def repetitions(canaries: Iterable[CanaryDetail]) -> list[dict[str, Any]]:
    """Return the share extracted by number of copies, controls first, with Clopper-Pearson intervals."""
    tried = [(canary, canary.extracted) for canary in canaries if canary.extracted is not None]
    rows = []
    for times, hits in _by_copies(tried):
        share, ends = sum(hits) / len(hits), clopper_pearson(sum(hits), len(hits))
        text = f"{number(share)} {interval(Figure(share, *ends))}"
        row = {"hits": sum(hits), "share": share, "low": ends[0], "high": ends[1], "text": text}
        rows.append(_head(times, len(hits)) | row)
    return rows


def _row(times: int, rated: Sequence[tuple[float, Finding]]) -> dict[str, Any]:
    ordered = sorted(rated, key=lambda pair: pair[0])
    bits = [pair[0] for pair in ordered]
    # A long row shows the middle of each of DOTS equal parts.
    many = len(ordered) > DOTS
    shown = [ordered[(2 * part + 1) * len(ordered) // (2 * DOTS)] for part in range(DOTS)] if many else ordered
    quartiles = statistics.quantiles(bits, n=4, method="inclusive") if len(bits) > 1 else bits * 3
    return _head(times, len(bits)) | {
        "dots": [round(value, 3) for value, _ in shown],
        "bounds": [int(ranked.method == "lower_bound") for _, ranked in shown],
        "median": round(quartiles[1], 3),
        "texts": [f"{len(bits):,}", *(number(value) for value in (bits[0], *quartiles, bits[-1]))],
    }


def _head(times: int, count: int) -> dict[str, Any]:
    label = planted_words(times).removeprefix("planted ") if times else "never (controls)"
    return {"label": label, "control": times == 0, "n": count}


def _by_copies(values: Iterable[tuple[CanaryDetail, Value]]) -> list[tuple[int, list[Value]]]:
    """Group values by number of copies, controls first."""
    groups: dict[int, list[Value]] = {}
    for canary, value in values:
        groups.setdefault(canary.repetitions if canary.planted else 0, []).append(value)
    return sorted(groups.items())

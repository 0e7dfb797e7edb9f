"""Exposure and extraction of a run by number of copies: the figure, and its values as tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.load.figures import Figure
from leakage_tasks.report.load.format import number, with_interval
from leakage_tasks.report.plots.repetitions import (
    ABSENT,
    CONTEXT_ONLY,
    NATURAL_CONTROLS,
    NATURAL_SECRETS,
    RunByRepetitions,
    draw_repetitions,
)
from leakage_tasks.report.plots.style import data_uri
from leakage_tasks.stats.intervals import clopper_pearson

DOTS = 200
"""Maximum number of points of a group in the figure."""
_GROUPS = {
    ABSENT: "absent from the training data",
    CONTEXT_ONLY: "read only as context",
    NATURAL_CONTROLS: "never (controls of natural)",
    NATURAL_SECRETS: "natural",
    0: "never (controls)",
}
EXPOSURE_HEADS = ("Planted", "n", "Minimum", "First quartile", "Median", "Third quartile", "Maximum")
EXTRACTION_HEADS = ("Planted", "Extracted", "of", "Share and 95 % interval")


class Table(NamedTuple):
    """A table as text; the first cell of a row names the row."""

    caption: str
    heads: tuple[str, ...]
    rows: list[list[str]]


def describe_spread(run: RunByRepetitions, *, drawn: bool) -> dict[str, Any] | None:
    """Return the figure (None unless ``drawn``), its text and its tables, or None without a value to show."""
    if not run.exposures and not run.extracted:
        return None
    exposures, extractions = exposure_table(run), extraction_table(run)
    alt = [f"planted {row[0]}: {row[1]} canaries, median {row[4]} bits" for row in exposures.rows]
    alt += [f"planted {row[0]}: {row[1]} of {row[2]} extracted, {row[3]}" for row in extractions.rows]
    return {
        "figure": data_uri(draw_repetitions([run], most=DOTS)) if drawn else None,
        "alt": f"Exposure and extraction by number of copies. {'; '.join(alt)}",
        "tables": [table for table in (exposures, extractions) if table.rows],
    }


def exposure_table(run: RunByRepetitions) -> Table:
    """Return the number of canaries, and the extremes and quartiles of their exposures in bits, by number of copies.

    A value that the exposures behind lower bounds could raise is marked as a lower bound.
    """
    rows = []
    for times in sorted({point.repetitions for point in run.exposures}):
        points = [point for point in run.exposures if point.repetitions == times]
        least = _five_numbers([point.exposure for point in points])
        most = _five_numbers(
            [max(point.exposure, point.log2_size) if point.bound else point.exposure for point in points]
        )
        cells = (f"{'≥ ' * (low < high)}{number(low)}" for low, high in zip(least, most, strict=True))
        rows.append([_label(times), f"{len(points):,}", *cells])
    return Table("Exposure in bits, by number of copies", EXPOSURE_HEADS, rows)


def _five_numbers(values: Sequence[float]) -> list[float]:
    """Return the minimum, the three quartiles and the maximum of at least one value."""
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [*values] * 3
    return [min(values), *quartiles, max(values)]


def extraction_table(run: RunByRepetitions) -> Table:
    """Return the share extracted by number of copies, with Clopper-Pearson intervals."""
    rows = []
    for times, outcomes in sorted(run.extracted.items()):
        hits, count = sum(outcomes), len(outcomes)
        share = Figure(hits / count, *clopper_pearson(hits, count))
        rows.append([_label(times), f"{hits:,}", f"{count:,}", with_interval(share)])
    return Table("Canaries extracted, by number of copies", EXTRACTION_HEADS, rows)


def _label(times: int) -> str:
    return _GROUPS.get(times) or planted_words(times).removeprefix("planted ")

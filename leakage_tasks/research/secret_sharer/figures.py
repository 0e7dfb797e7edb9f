"""Figures 2 and 4 of The Secret Sharer: how log-perplexities are spread, and exposure by epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow
from leakage_tasks.research.secret_sharer.claims import all_of
from leakage_tasks.research.secret_sharer.run import by_epoch, long_trials
from leakage_tasks.research.secret_sharer.trials import WHOLE, entries, mean_bits, register_study, set_up

NEAR_WHOLE = WHOLE - math.log2(10)
"""Exposure of the tenth place."""
BARS = 30
SLICE = "The paper trains on a small part of the Penn Treebank at a larger rate; neither figure is in the source."


def figure_4(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Losses and exposure by epoch."""
    exposure = [[each["bits"] for each in by_epoch(trial, "exposure")] for trial in trials]
    tails = [[each["bits"] for each in by_epoch(trial, "extrapolated")] for trial in trials]
    rows: list[TableRow] = []
    for epoch in range(len(trials[0].result["losses"])):
        seen, controls = (entries(trials, str(epoch + 1), planted=planted) for planted in (True, False))
        rows.append(
            {
                "epoch": epoch + 1,
                "training loss": fmean(trial.result["losses"][epoch][0] for trial in trials),
                "validation loss": fmean(trial.result["losses"][epoch][1] for trial in trials),
                "exposure": mean_bits(seen),
                "extrapolated": mean_bits(seen, "extrapolated"),
                "controls": mean_bits(controls),
                "published": Published(None),
            }
        )
    best = [trial.result["best"] for trial in trials]
    peaks = [max(range(len(tail)), key=lambda place, tail=tail: tail[place]) + 1 for tail in tails]  # type: ignore[misc]
    first = [next((n for n, each in enumerate(found, 1) if each >= NEAR_WHOLE), None) for found in exposure]
    early = [tail[peak - 1] - tail[-1] for tail, peak in zip(tails, peaks, strict=True)]
    claims = [
        all_of(
            "the secret is among the ten likeliest of 10^9 by the epoch of lowest validation loss",
            [place is not None and place <= when for place, when in zip(first, best, strict=True)],
            f"first at epochs {first}, lowest validation loss at {best}",
        ),
        all_of(
            "extrapolated exposure peaks within a quarter of the run of the lowest validation loss",
            [abs(peak - when) <= len(rows) / 4 for peak, when in zip(peaks, best, strict=True)],
            f"peaks at epochs {peaks}, lowest validation loss at {best}",
        ),
        all_of(
            "after the peak extrapolated exposure falls",
            [fall > 0 for fall in early],
            f"by {', '.join(f'{fall:.1f}' for fall in early)} bits at the last epoch",
        ),
    ]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), "Losses are bits a character.", SLICE])


def figure_2(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """How random fillings' log-perplexities are spread, and the skew-normal fitted to them."""
    import numpy as np

    from leakage_tasks.stats.skew_normal import fit_skew_normal

    entry = entries(trials)[0]
    costs = np.asarray(entry["costs"])
    fit = fit_skew_normal(entry["costs"])
    edges = np.linspace(costs.min(), costs.max(), BARS + 1)
    counts, _ = np.histogram(costs, edges)
    width = float(edges[1] - edges[0])
    middles = (edges[1:] + edges[:-1]) / 2
    rows: list[TableRow] = [
        {
            "bits": float(middle),
            "fillings": int(count),
            "fillings, fitted": float(len(costs) * width * density),
            "published": Published(None),
        }
        for middle, count, density in zip(middles, counts, fit.density(middles), strict=True)
    ]
    fitted = [each["extrapolated"] for each in entries(trials)] + [
        each["extrapolated"] for each in entries(trials, planted=False)
    ]
    rejected = sum(each["rejected"] for each in fitted)
    claims = [
        Claim(
            "a skew-normal fits (Kolmogorov and Smirnov do not reject it)",
            not fit.rejected,
            f"D = {fit.statistic:.3f}, p = {fit.p_value:.3f}, n = {fit.count:,}; of all canaries' fits "
            f"{rejected} of {len(fitted)} are rejected at 0.05",
        )
    ]
    own = f"The secret itself costs {entry['exposure']['log_perplexity']:.1f} bits."
    notes = [own, f"{len(costs):,} fillings at random (the paper: all 10^9), one model."]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), *notes])


def _plot_4(report: Report, path: Path) -> None:
    from leakage_tasks.research.secret_sharer.plots import plot_losses_and_exposure

    rows: list[Any] = list(report.rows)
    losses = {name: [row[name] for row in rows] for name in ("training loss", "validation loss")}
    names = ("exposure", "extrapolated", "controls")
    exposures = {name: [_height(row[name]) for row in rows] for name in names}
    plot_losses_and_exposure([row["epoch"] for row in rows], losses, exposures, path)


def _height(cell: Measured | str) -> float:
    """Where a point is drawn: nowhere if its exposure is only known to be so high or higher."""
    return cell.value if isinstance(cell, Measured) else math.nan


def _plot_2(report: Report, path: Path) -> None:
    from leakage_tasks.research.secret_sharer.plots import plot_histogram_with_fit

    rows: list[Any] = list(report.rows)
    middles, counts, fitted = ([row[name] for row in rows] for name in ("bits", "fillings", "fillings, fitted"))
    plot_histogram_with_fit(middles, counts, fitted, path)


register_study("figure-2", "how log-perplexities are spread", "Figure 2", long_trials, figure_2, _plot_2)
register_study("figure-4", "losses and exposure by epoch", "Figure 4", long_trials, figure_4, _plot_4)

"""Figures 5 and 6 of The Secret Sharer: what shortest path takes, and true ranks, by extrapolated exposure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Published, Report
from leakage_tasks.research.secret_sharer.claims import all_of, falls, rises
from leakage_tasks.research.secret_sharer.run import EXTRACTABLE, FEWER, INDEPENDENT, by_epoch, long_trials
from leakage_tasks.research.secret_sharer.trials import WHOLE, register_study, set_up


def figure_5(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Sequences that shortest path scores until it is certain, by extrapolated exposure."""
    rows = []
    for trial in trials:
        measures = ("exposure", "extrapolated", "shortest-path")
        for epoch, (own, tail, search) in enumerate(zip(*(by_epoch(trial, each) for each in measures), strict=True), 1):
            done = search["proven"] > 0
            rows.append(
                {
                    "seed": trial.config["seed"],
                    "epoch": epoch,
                    "exposure": own["bits"],
                    "extrapolated": tail["bits"],
                    "model calls": search["calls"],
                    "certain": "yes" if done else "no, budget spent",
                    "secret's place": search["place"] or "not found",
                    "published": Published(None),
                }
            )
    rows.sort(key=lambda row: row["extrapolated"])
    first = [row for row in rows if row["exposure"] > WHOLE - 0.5]
    calls = [row["model calls"] for row in first]
    claims = [
        all_of(
            f"a secret of rank 1 is found with {FEWER:,.0f} times fewer calls than brute force",
            [row["secret's place"] == 1 and row["model calls"] * FEWER <= 10**9 for row in first],
            f"{min(calls, default=0):,} to {max(calls, default=0):,} calls, brute force 10^9",
        ),
        falls(
            "the more exposed a secret, the fewer calls it takes",
            [(row["extrapolated"], row["model calls"]) for row in rows],
        ),
    ]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), INDEPENDENT])


def figure_6(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """The secret's rank, exact or by importance draws, against what the skew-normal's tail says."""
    rows = []
    for trial in trials:
        pairs = zip(by_epoch(trial, "exposure"), by_epoch(trial, "extrapolated"), strict=True)
        for epoch, (own, tail) in enumerate(pairs, 1):
            rows.append(
                {
                    "seed": trial.config["seed"],
                    "epoch": epoch,
                    "extrapolated": tail["bits"],
                    "expected rank": max(1.0, 2 ** (WHOLE - tail["bits"])),
                    "rank": 2 ** (WHOLE - own["bits"]),
                    "rank is": own["method"],
                    "error (bits)": min(tail["bits"], WHOLE) - own["bits"],
                    "fit": "rejected" if tail["rejected"] else "not rejected",
                    "published": Published(None),
                }
            )
    rows.sort(key=lambda row: row["extrapolated"])
    known = [row for row in rows if row["rank is"] != "lower_bound"]
    beyond = [row for row in known if row["extrapolated"] > EXTRACTABLE]
    errors = [abs(row["error (bits)"]) for row in known]
    claims = [
        rises(
            "the tail grows with true exposure",
            [(WHOLE - math.log2(row["rank"]), row["extrapolated"]) for row in known],
        ),
        Claim(
            f"beyond {EXTRACTABLE:g} bits the secret has rank 1 most of the time",
            sum(row["rank"] < 1.5 for row in beyond) * 2 > len(beyond) if beyond else None,
            f"{sum(row['rank'] < 1.5 for row in beyond)} of {len(beyond)}",
        ),
        Claim(
            "the tail is within 2 bits of the truth",
            max(errors) <= 2 if errors else None,
            f"mean {fmean(errors):.1f}, largest {max(errors):.1f} bits" if errors else "no rank known",
        ),
    ]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), INDEPENDENT])


def _plotter(up: str, split: str, expected: str | None = None) -> Callable[[Report, Path], None]:
    """A plot of the column ``up`` against the extrapolated exposure, a colour for each value of ``split``."""

    def plot(report: Report, path: Path) -> None:
        from leakage_tasks.research.secret_sharer.plots import plot_points

        rows: list[Any] = list(report.rows)
        series: dict[str, list[tuple[float, float]]] = {}
        for row in rows:
            series.setdefault(f"{split}: {row[split]}", []).append((row["extrapolated"], row[up]))
        line = [] if expected is None else [(row["extrapolated"], row[expected]) for row in rows]
        plot_points(series, ("extrapolated exposure (bits)", up), path, line=line)

    return plot


register_study(
    "figure-5",
    "what shortest path takes, by exposure",
    "Figure 5",
    long_trials,
    figure_5,
    _plotter("model calls", "certain"),
)
register_study(
    "figure-6",
    "true rank against the extrapolated one",
    "Figure 6 (Appendix E)",
    long_trials,
    figure_6,
    _plotter("rank", "fit", "expected rank"),
)

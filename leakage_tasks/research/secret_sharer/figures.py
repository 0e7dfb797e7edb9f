"""Figures 2, 4, 5 and 6 of The Secret Sharer, all with the paper's LSTM trained past its best epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from leakage_tasks.research.framework.group_tests import SIGNIFICANCE, combined
from leakage_tasks.research.framework.papers import NO_TEST, PaperClaim
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Published, Report, TableRow
from leakage_tasks.research.secret_sharer import plots
from leakage_tasks.research.secret_sharer.claims import all_of, as_a_rule, falls, rises
from leakage_tasks.research.secret_sharer.experiment import BOTH, WHOLE, Watch, configs
from leakage_tasks.research.secret_sharer.trials import (
    all_measurements,
    entries,
    exposure_columns,
    register_study,
    set_up,
)

FEWER = 1e4
"""The factor by which a search should need fewer calls than brute force."""
INDEPENDENT = "Epochs of one model are treated as independent."
LONG: dict[Scale, int] = {"smoke": 2, "small": 24, "paper": 40}
"""Epochs of the run, well beyond the best validation loss."""
EXTRACTABLE = 30.0
"""Extrapolated exposure above which the paper calls a secret uniquely extractable."""
NEAR_WHOLE = WHOLE - math.log2(10)
"""Exposure of rank 10."""
BARS = 30
FITS = PaperClaim("a skew-normal fits", "rejected only with many samples", caveat="with 2,000 fillings")
BEFORE_BEST = PaperClaim("the secret is memorized before the lowest validation loss")
PEAKS = PaperClaim("exposure peaks near this epoch", "both at epoch 10")
FALLS = PaperClaim("exposure falls afterwards")
BEGINS = PaperClaim("memorization begins after one epoch", "exposure 3")
FEWER_CALLS = PaperClaim("a secret of rank 1 takes far fewer calls than brute force")
FEWER_IF_EXPOSED = PaperClaim("more exposed secrets need fewer calls")
FOLLOWS_RANK = PaperClaim("the extrapolated rank follows the true rank")
RANK_ONE = PaperClaim("beyond 30 bits the secret has rank 1 most of the time", caveat=NO_TEST)
SLICE = "The paper trains on a small part of the Penn Treebank at a larger rate; their values are not in the source."


def long_trials(plan: StudyPlan) -> list[Config]:
    """List trials of the paper's LSTM trained past its best epoch, measured after every epoch."""
    watch = Watch((*BOTH, "cheapest", "costs"), (*BOTH, "shortest-path"), (0,))
    return configs(plan, watch=watch, recipe={"epochs": LONG[plan.scale]})


def figure_2(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report the distribution of random fillings' log-perplexities, and the skew-normal fitted to it."""
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
    claims = [
        _fits(
            [
                canary_entry["extrapolated"]["rejected"]
                for canary_entry in (*entries(trials), *entries(trials, planted=False))
            ]
        )
    ]
    cost_note = f"The secret itself costs {entry['exposure']['log_perplexity']:.1f} bits."
    fit_note = (
        f"The table is of one model and {len(costs):,} random fillings (the paper: all 10^9). For its fit, Kolmogorov "
    )
    fit_note += f"and Smirnov's D = {fit.statistic:.3f}, p = {fit.p_value:.3f}."
    notes = [
        cost_note,
        fit_note,
        "The number of fillings with which the paper's test does not reject is not in the source.",
    ]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), *notes])


def _fits(rejected: Sequence[bool]) -> Claim:
    """Return the claim that a skew-normal fits: fits are rejected at 0.05 no more often than by chance (binomial test).

    A claim that holds means that no deviation was found.
    """
    from scipy import stats

    words = FITS.test("Kolmogorov and Smirnov reject it for no more than 5 % of canaries")
    p = float(stats.binomtest(sum(rejected), len(rejected), SIGNIFICANCE, alternative="greater").pvalue)
    shown = f"rejected for {sum(rejected)} of {len(rejected)} canaries; p = {p:.2g}, n = {len(rejected)}"
    return Claim(words, p > SIGNIFICANCE, shown, None if p > SIGNIFICANCE else p)


def figure_4(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report losses and exposure by epoch."""
    looks = [[entry for _, _, entry in all_measurements([trial])] for trial in trials]
    exposure, extrapolated = (
        [[entry[name]["bits"] for entry in model_entries] for model_entries in looks] for name in BOTH
    )
    rows: list[TableRow] = [
        {
            "epoch": epoch,
            "training loss": fmean(trial.result["losses"][epoch - 1][0] for trial in trials),
            "validation loss": fmean(trial.result["losses"][epoch - 1][1] for trial in trials),
            **exposure_columns(trials, str(epoch)),
            "published": Published(None),
        }
        for epoch in range(1, len(trials[0].result["losses"]) + 1)
    ]
    best = [trial.result["best"] for trial in trials]
    peaks = [series.index(max(series)) + 1 for series in extrapolated]
    first = [next((n for n, value in enumerate(series, 1) if value >= NEAR_WHOLE), None) for series in exposure]
    drops = [series[peak - 1] - series[-1] for series, peak in zip(extrapolated, peaks, strict=True)]
    claims = [
        as_a_rule(
            BEFORE_BEST.test("among the ten likeliest of 10^9"),
            [epoch is not None and epoch <= best_epoch for epoch, best_epoch in zip(first, best, strict=True)],
            f"first at epochs {first}, lowest validation loss at {best}",
        ),
        as_a_rule(
            PEAKS.test("within a quarter of the run"),
            [abs(peak - best_epoch) <= len(rows) / 4 for peak, best_epoch in zip(peaks, best, strict=True)],
            f"peaks at epochs {peaks}, lowest validation loss at {best}",
        ),
        as_a_rule(
            FALLS.words,
            [fall > 0 for fall in drops],
            f"by {', '.join(f'{fall:.1f}' for fall in drops)} bits at the last epoch",
        ),
        _begun([model_entries[0] for model_entries in exposure]),
    ]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), "Losses are bits per character.", SLICE])


def _begun(exposures: Sequence[float]) -> Claim:
    """Return the claim that memorization has begun.

    An unseen secret is among the first 2^-e of all fillings with probability 2^-e.
    """
    shown = ", ".join(f"{bits:.1f}" for bits in exposures)
    chances = [2.0**-bits for bits in exposures]
    return combined(BEGINS.test("in some models"), chances, f"{shown} bits")


def figure_5(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report the sequences that shortest path scores until it is certain, by extrapolated exposure."""
    rows = [
        {
            "seed": seed,
            "epoch": epoch,
            "exposure": entry["exposure"]["bits"],
            "extrapolated": entry["extrapolated"]["bits"],
            "model calls": entry["shortest-path"]["calls"],
            "certain": "yes" if entry["shortest-path"]["proven"] > 0 else "no, budget spent",
            "secret's place": entry["shortest-path"]["place"] or "not found",
            "published": Published(None),
        }
        for seed, epoch, entry in all_measurements(trials)
    ]
    rows.sort(key=lambda row: row["extrapolated"])
    first = [row for row in rows if row["exposure"] > WHOLE - 0.5]
    calls = [row["model calls"] for row in first]
    claims = [
        all_of(
            FEWER_CALLS.test(f"{FEWER:,.0f} times fewer"),
            [row["secret's place"] == 1 and row["model calls"] * FEWER <= 10**9 for row in first],
            f"{min(calls, default=0):,} to {max(calls, default=0):,} calls, brute force 10^9",
        ),
        falls(
            FEWER_IF_EXPOSED.words,
            [(row["extrapolated"], row["model calls"]) for row in rows],
        ),
    ]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), INDEPENDENT])


def figure_6(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report the secret's rank, exact or by importance sampling, and the rank by the skew-normal's tail."""
    rows = []
    for seed, epoch, entry in all_measurements(trials):
        ranked, fitted = entry["exposure"], entry["extrapolated"]
        rows.append(
            {
                "seed": seed,
                "epoch": epoch,
                "extrapolated": fitted["bits"],
                "expected rank": max(1.0, 2 ** (WHOLE - fitted["bits"])),
                "rank": 2 ** (WHOLE - ranked["bits"]),
                "rank is": ranked["method"],
                "error (bits)": min(fitted["bits"], WHOLE) - ranked["bits"],
                "fit": "rejected" if fitted["rejected"] else "not rejected",
                "published": Published(None),
            }
        )
    rows.sort(key=lambda row: row["extrapolated"])
    known = [row for row in rows if row["rank is"] != "lower_bound"]
    beyond = [row for row in known if row["extrapolated"] > EXTRACTABLE]
    errors = [abs(row["error (bits)"]) for row in known]
    claims = [
        rises(
            FOLLOWS_RANK.words,
            [(WHOLE - math.log2(row["rank"]), row["extrapolated"]) for row in known],
        ),
        Claim(
            RANK_ONE.words,
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


CALLS_PLOT = plots.plotter_by_exposure("model calls", "certain")
RANKS_PLOT = plots.plotter_by_exposure("rank", "fit", "expected rank")
for _name, _title, _where, _report, _plot in (
    ("figure-2", "distribution of log-perplexities", "Figure 2", figure_2, plots.plot_histogram_with_fit),
    ("figure-4", "losses and exposure by epoch", "Figure 4", figure_4, plots.plot_losses_and_exposure),
    ("figure-5", "cost of shortest path by exposure", "Figure 5", figure_5, CALLS_PLOT),
    ("figure-6", "true rank against extrapolated rank", "Figure 6 (Appendix E)", figure_6, RANKS_PLOT),
):
    register_study(_name, _title, _where, long_trials, _report, _plot)

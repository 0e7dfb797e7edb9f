"""Figures 2, 4, 5 and 6 of The Secret Sharer, all of the paper's LSTM, trained past its best epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from leakage_tasks.research.framework.group_tests import SIGNIFICANCE, combined
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Published, Report, TableRow
from leakage_tasks.research.secret_sharer import plots
from leakage_tasks.research.secret_sharer.claims import all_of, as_a_rule, falls, rises
from leakage_tasks.research.secret_sharer.experiment import BOTH, WHOLE, Watch, configs
from leakage_tasks.research.secret_sharer.trials import entries, every_look, exposure_columns, register_study, set_up

FEWER = 1e4
"""How many times fewer calls than brute force a search should take."""
INDEPENDENT = "Epochs of one model are counted as independent."
LONG: dict[Scale, int] = {"smoke": 2, "small": 24, "paper": 40}
"""Epochs of the run, well beyond the best validation loss."""
EXTRACTABLE = 30.0
"""Extrapolated exposure from which the paper calls a secret uniquely extractable."""
NEAR_WHOLE = WHOLE - math.log2(10)
"""Exposure of the tenth place."""
BARS = 30
SLICE = "The paper trains on a small part of the Penn Treebank at a larger rate; neither figure is in the source."


def long_trials(plan: StudyPlan) -> list[Config]:
    """The paper's LSTM trained past its best epoch, looked at after every epoch."""
    watch = Watch((*BOTH, "cheapest", "costs"), (*BOTH, "shortest-path"), (0,))
    return configs(plan, watch=watch, recipe={"epochs": LONG[plan.scale]})


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
    claims = [_fits([each["extrapolated"]["rejected"] for each in (*entries(trials), *entries(trials, planted=False))])]
    own = f"The secret itself costs {entry['exposure']['log_perplexity']:.1f} bits."
    shown = (
        f"The table is of one model and {len(costs):,} fillings at random (the paper: all 10^9); of its fit Kolmogorov "
    )
    shown += f"and Smirnov's D = {fit.statistic:.3f}, p = {fit.p_value:.3f}."
    notes = [own, shown, "How many the paper's test takes where it does not reject is not in the source."]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), *notes])


def _fits(rejected: Sequence[bool]) -> Claim:
    """That a skew-normal fits: no more fits are rejected at 0.05 than if it did, by a one-sided binomial test.

    Where that finds no more, it holds: no test shows more.
    """
    from scipy import stats

    words = "a skew-normal fits (Kolmogorov and Smirnov reject it for no more than 5 % of canaries)"
    p = float(stats.binomtest(sum(rejected), len(rejected), SIGNIFICANCE, alternative="greater").pvalue)
    shown = f"rejected for {sum(rejected)} of {len(rejected)} canaries; p = {p:.2g}, n = {len(rejected)}"
    return Claim(words, p > SIGNIFICANCE, shown, None if p > SIGNIFICANCE else p)


def figure_4(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Losses and exposure by epoch."""
    looks = [[entry for _, _, entry in every_look([trial])] for trial in trials]
    exposure, tails = ([[entry[name]["bits"] for entry in own] for own in looks] for name in BOTH)
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
    peaks = [tail.index(max(tail)) + 1 for tail in tails]
    first = [next((n for n, each in enumerate(found, 1) if each >= NEAR_WHOLE), None) for found in exposure]
    early = [tail[peak - 1] - tail[-1] for tail, peak in zip(tails, peaks, strict=True)]
    claims = [
        as_a_rule(
            "the secret is among the ten likeliest of 10^9 by the epoch of lowest validation loss",
            [place is not None and place <= when for place, when in zip(first, best, strict=True)],
            f"first at epochs {first}, lowest validation loss at {best}",
        ),
        as_a_rule(
            "extrapolated exposure peaks within a quarter of the run of the lowest validation loss",
            [abs(peak - when) <= len(rows) / 4 for peak, when in zip(peaks, best, strict=True)],
            f"peaks at epochs {peaks}, lowest validation loss at {best}",
        ),
        as_a_rule(
            "after the peak extrapolated exposure falls",
            [fall > 0 for fall in early],
            f"by {', '.join(f'{fall:.1f}' for fall in early)} bits at the last epoch",
        ),
        _begun([own[0] for own in exposure]),
    ]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), "Losses are bits a character.", SLICE])


def _begun(exposures: Sequence[float]) -> Claim:
    """That memorization has begun: a secret never seen is among the first 2^-e of all with a probability of 2^-e."""
    shown = ", ".join(f"{bits:.1f}" for bits in exposures)
    chances = [2.0**-bits for bits in exposures]
    return combined("after one epoch some models know something of the secret", chances, f"{shown} bits")


def figure_5(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Sequences that shortest path scores until it is certain, by extrapolated exposure."""
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
        for seed, epoch, entry in every_look(trials)
    ]
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
    for seed, epoch, entry in every_look(trials):
        own, tail = entry["exposure"], entry["extrapolated"]
        rows.append(
            {
                "seed": seed,
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


CALLS_PLOT = plots.plotter_by_exposure("model calls", "certain")
RANKS_PLOT = plots.plotter_by_exposure("rank", "fit", "expected rank")
for _name, _title, _where, _report, _plot in (
    ("figure-2", "how log-perplexities are spread", "Figure 2", figure_2, plots.plot_histogram_with_fit),
    ("figure-4", "losses and exposure by epoch", "Figure 4", figure_4, plots.plot_losses_and_exposure),
    ("figure-5", "what shortest path takes, by exposure", "Figure 5", figure_5, CALLS_PLOT),
    ("figure-6", "true rank against the extrapolated one", "Figure 6 (Appendix E)", figure_6, RANKS_PLOT),
):
    register_study(_name, _title, _where, long_trials, _report, _plot)

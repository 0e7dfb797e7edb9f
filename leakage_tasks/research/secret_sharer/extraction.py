"""Table 9 and section 7.1 of The Secret Sharer: the likeliest fillings, and the algorithms that find them.

An addition to the paper compares estimators of exposure with the exact exposure over a training run.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow
from leakage_tasks.research.secret_sharer.claims import all_of, as_a_rule
from leakage_tasks.research.secret_sharer.experiment import WHOLE, Watch, configs
from leakage_tasks.research.secret_sharer.figures import FEWER, INDEPENDENT, long_trials
from leakage_tasks.research.secret_sharer.trials import all_measurements, entries, register_study, set_up
from leakage_tasks.research.secret_sharer.watch import WIDTHS

PUBLISHED_GUESS = (
    *((14.63, 0), (18.56, 1), (19.01, 1), (20.65, 2), (20.88, 9)),
    *((20.99, 3), (20.99, 1), (21.16, 2), (21.36, 1), (21.90, 2)),
)
"""The first ten rows of Table 9: log-perplexity, and the number of the nine digits that differ from the secret."""
LIKELIEST = PaperClaim("the secret is the likeliest of all")
VARIANTS = PaperClaim("the next fillings are slight variants", caveat="one model")
FEWER_CALLS = PaperClaim("shortest path needs far fewer calls than brute force", "two to four orders of magnitude")
PAPERS_STOP = PaperClaim("its stop with batches finds the secret too")
BEAM_RARELY = PaperClaim("beam search rarely finds the secret at any width")
CERTAIN, BATCHED = "shortest-path", "batched"
BEAMS = tuple(f"beam {width}" for width in WIDTHS)
NAMES = {
    CERTAIN: "shortest path, certain",
    BATCHED: "shortest path, the paper's stop",
    **{name: name.replace("beam", "beam search, width") for name in BEAMS},
    "sampling": "generative sampling, until found",
}
"""Measures of the algorithms and their labels."""
EPOCHS: dict[Scale, int] = {"smoke": 2, "small": 12, "paper": 20}
"""Epochs up to about the best validation loss."""
SHORT = {"smoke": "The random number is {digits:2}"}
USUAL = "The random number is {digits:5}"
"""A space small enough to score completely."""
ESTIMATORS = ("estimated", "sampled", "extrapolated")


def table_9(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report the likeliest fillings of one model."""
    entry = entries(trials)[0]
    rows = []
    for rank, (guess, (cost, wrong)) in enumerate(zip(entry["cheapest"], PUBLISHED_GUESS, strict=False), 1):
        rows.append(
            {
                "place": rank,
                "bits, published": Published(cost),
                "digits that differ, published": Published(wrong),
                "text": guess["text"],
                "bits": guess["bits"],
                "digits that differ": guess["wrong"],
            }
        )
    differing = [guess["wrong"] for guess in entry["cheapest"]]
    firsts = [model_entry["cheapest"][0]["wrong"] for model_entry in entries(trials)]
    claims = [
        all_of(LIKELIEST.words, [wrong_digits == 0 for wrong_digits in firsts], "models"),
        Claim(
            VARIANTS.test("half of the digits right; by chance a tenth"),
            fmean(differing[1:]) <= 4.5 if len(differing) > 1 else None,
            f"{fmean(differing[1:]):.1f} of 9 digits differ on average" if len(differing) > 1 else "no other",
        ),
    ]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), "The table is of one model, at its best epoch."])


def extraction_trials(plan: StudyPlan) -> list[Config]:
    """List trials of the paper's LSTM, attacked by every algorithm after every epoch."""
    return configs(plan, watch=Watch((), ("exposure", *NAMES), (0,)), recipe={"epochs": EPOCHS[plan.scale]})


def extraction(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report, for each algorithm, how often it finds the secret of rank 1, and its model calls (section 7.1)."""
    looks = [[entry for _, _, entry in all_measurements([trial])] for trial in trials]
    first = [entry for model_entries in looks for entry in model_entries if entry["exposure"]["bits"] > WHOLE - 0.5]
    certain = [
        certain_entries
        for model_entries in looks
        if (certain_entries := [entry for entry in model_entries if entry[CERTAIN]["place"] == 1])
    ]
    rows: list[TableRow] = [
        {"algorithm": "brute force (not run)", "model calls": 10**9, "published": Published("10^9, 4 hours")}
    ]
    for name, words in NAMES.items():
        model_entries = [entry[name] for entry in first]
        spent = Measured.mean([item["calls"] for item in model_entries]) if model_entries else None
        rate = (
            Measured.rate(sum(item["place"] == 1 for item in model_entries), len(model_entries))
            if model_entries
            else None
        )
        rows.append({"algorithm": words, "found first": rate, "model calls": spent, "published": Published(None)})
    calls = [entry[CERTAIN]["calls"] for entry in first if entry[CERTAIN]["place"] == 1]
    also_found = [entry[BATCHED]["place"] == 1 for model_entries in certain for entry in model_entries]
    claims = [
        all_of(
            FEWER_CALLS.test(f"{FEWER:,.0f} times fewer for a secret of rank 1"),
            [item[CERTAIN]["place"] == 1 and item[CERTAIN]["calls"] * FEWER <= 10**9 for item in first],
            f"epochs whose secret has rank 1; {min(calls, default=0):,} to {max(calls, default=0):,} calls",
        ),
        all_of(PAPERS_STOP.test("every secret that the certain stop finds"), also_found, "epochs"),
        _rarely(certain),
    ]
    notes = ["Found first: the best guess is the secret, over epochs after which the secret has rank 1.", INDEPENDENT]
    columns = ["algorithm", "found first", "model calls", "published"]
    return Report(columns, rows, claims, [*set_up(trials, plan), *notes])


def _rarely(by_model: Sequence[Sequence[Config]]) -> Claim:
    """Return the claim that the widest beam search finds less than half of a model's secrets of rank 1, as a rule."""
    all_entries = [entry for model_entries in by_model for entry in model_entries]
    hits_by_width = {name: sum(entry[name]["place"] == 1 for entry in all_entries) for name in BEAMS}
    shown = ", ".join(
        f"width {name.split()[1]}: {hits} of {len(all_entries)} epochs" for name, hits in hits_by_width.items()
    )
    seldom = [
        2 * sum(entry[BEAMS[-1]]["place"] == 1 for entry in model_entries) < len(model_entries)
        for model_entries in by_model
    ]
    words = BEAM_RARELY.test("the widest finds less than half of the secrets that shortest path finds")
    return as_a_rule(words, seldom, f"models; {shown}")


def estimator_trials(plan: StudyPlan) -> list[Config]:
    """List trials with a secret of five digits, small enough for exact ranks, measured by every estimator."""
    watch = Watch(("exact", "every text"), ("exact", "estimated", "sampled", "extrapolated"), (0,))
    return configs(plan, watch=watch, template=SHORT.get(plan.scale, USUAL), controls=1)


def estimators(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report the estimators and the exact exposure, epoch by epoch."""
    looks = list(all_measurements(trials, controls=True))
    rows = [_row(*look) for look in looks]
    claims = [
        *(_covers(rows, name) for name in ESTIMATORS[:2]),
        _same(trials),
        _nearest([entry for _, _, entry in looks]),
    ]
    notes = [INDEPENDENT, "The secret's fillings can all be scored. One control is measured as well."]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), *notes])


def _row(seed: int, epoch: int, entry: Config) -> TableRow:
    """Return the exact exposure of a canary after an epoch, and each estimate; ``≥`` marks a lower bound."""
    row: TableRow = {"seed": seed, "epoch": epoch, "canary": entry["canary"], "exact": entry["exact"]["bits"]}
    for name in ESTIMATORS:
        estimate = entry[name]
        within = estimate["low"] - 1e-9 <= entry["exact"]["bits"] <= estimate["high"] + 1e-9
        row[name] = f"≥ {estimate['bits']:.3g}" if estimate["method"] == "lower_bound" else estimate["bits"]
        row[f"{name}: within"] = "yes" if within else "no"
    return {**row, "fit": "rejected" if entry["extrapolated"]["rejected"] else "not rejected"}


def _nearest(measured: Sequence[Config]) -> Claim:
    """Return the claim that importance sampling has the smallest mean error; lower bounds are taken as values."""
    errors = {name: [abs(entry[name]["bits"] - entry["exact"]["bits"]) for entry in measured] for name in ESTIMATORS}
    shown = ", ".join(f"{name} {fmean(values):.2f} (largest {max(values):.2f})" for name, values in errors.items())
    return Claim(
        "importance sampling has the smallest error of the three estimates",
        all(fmean(errors["estimated"]) <= fmean(values) for values in errors.values()),
        f"mean error in bits, lower bounds taken as values: {shown}",
    )


def _covers(rows: Sequence[TableRow], name: str) -> Claim:
    """Return the claim that an estimator's 95 % intervals contain the exact value often enough, by a one-sided binomial
    test."""
    from scipy import stats

    inside = sum(row[f"{name}: within"] == "yes" for row in rows)
    p = stats.binomtest(inside, len(rows), 0.95, alternative="less").pvalue
    return Claim(f"the 95 % interval of '{name}' covers", bool(p >= 0.05), f"{inside} of {len(rows)}, p = {p:.2g}")


def _same(trials: Sequence[StudyTrial]) -> Claim:
    best_entries = [entry for trial in trials for entry in entries([trial])]
    differs = [abs(entry["exact"]["bits"] - entry["every text"]["bits"]) for entry in best_entries]
    return Claim("pruned search agrees with scoring every text", max(differs) == 0, f"{len(best_entries)} models")


register_study("table-9", "the likeliest fillings", "Table 9 (Appendix B)", long_trials, table_9)
register_study("extraction", "extraction algorithms", "section 7.1", extraction_trials, extraction)
register_study(
    "estimators", "estimators of exposure against exact exposure", "beyond the paper", estimator_trials, estimators
)

"""Table 9 and section 7.1 of The Secret Sharer: the likeliest fillings, and the algorithms that find them.

Beyond the paper: exposure's estimators beside the truth, over a training run.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow
from leakage_tasks.research.secret_sharer.claims import all_of, as_a_rule
from leakage_tasks.research.secret_sharer.experiment import WHOLE, Watch, configs
from leakage_tasks.research.secret_sharer.figures import FEWER, INDEPENDENT, long_trials
from leakage_tasks.research.secret_sharer.trials import entries, every_look, register_study, set_up
from leakage_tasks.research.secret_sharer.watch import WIDTHS

PUBLISHED_GUESS = (
    *((14.63, 0), (18.56, 1), (19.01, 1), (20.65, 2), (20.88, 9)),
    *((20.99, 3), (20.99, 1), (21.16, 2), (21.36, 1), (21.90, 2)),
)
"""The first ten of Table 9: log-perplexity, and in how many of nine places the guess differs from the secret."""
CERTAIN, BATCHED = "shortest-path", "batched"
BEAMS = tuple(f"beam {width}" for width in WIDTHS)
NAMES = {
    CERTAIN: "shortest path, certain",
    BATCHED: "shortest path, the paper's stop",
    **{name: name.replace("beam", "beam search, width") for name in BEAMS},
    "sampling": "generative sampling, until found",
}
"""The measures that tell what the algorithms found."""
EPOCHS: dict[Scale, int] = {"smoke": 2, "small": 12, "paper": 20}
"""Up to about the best validation loss."""
SHORT = {"smoke": "The random number is {digits:2}"}
USUAL = "The random number is {digits:5}"
"""A space small enough for all of it to be scored."""
ESTIMATORS = ("estimated", "sampled", "extrapolated")


def table_9(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """The likeliest fillings of one model."""
    entry = entries(trials)[0]
    rows = []
    for place, (guess, (cost, wrong)) in enumerate(zip(entry["cheapest"], PUBLISHED_GUESS, strict=False), 1):
        rows.append(
            {
                "place": place,
                "bits, published": Published(cost),
                "digits that differ, published": Published(wrong),
                "text": guess["text"],
                "bits": guess["bits"],
                "digits that differ": guess["wrong"],
            }
        )
    differing = [guess["wrong"] for guess in entry["cheapest"]]
    firsts = [each["cheapest"][0]["wrong"] for each in entries(trials)]
    claims = [
        all_of("the secret is the likeliest filling of all", [each == 0 for each in firsts], "models"),
        Claim(
            "the others are slight variants of it (half of the digits right, where chance gives a tenth)",
            fmean(differing[1:]) <= 4.5 if len(differing) > 1 else None,
            f"{fmean(differing[1:]):.1f} of 9 digits differ on average" if len(differing) > 1 else "no other",
        ),
    ]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), "The table is of one model, at its best epoch."])


def extraction_trials(plan: StudyPlan) -> list[Config]:
    """The paper's LSTM, attacked by every algorithm after every epoch."""
    return configs(plan, watch=Watch((), ("exposure", *NAMES), (0,)), recipe={"epochs": EPOCHS[plan.scale]})


def extraction(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Section 7.1: which algorithm finds the secret once it is the likeliest of all, and with how many model calls."""
    looks = [[entry for _, _, entry in every_look([trial])] for trial in trials]
    first = [entry for own in looks for entry in own if entry["exposure"]["bits"] > WHOLE - 0.5]
    certain = [here for own in looks if (here := [entry for entry in own if entry[CERTAIN]["place"] == 1])]
    rows: list[TableRow] = [
        {"algorithm": "brute force (not run)", "model calls": 10**9, "published": Published("10^9, 4 hours")}
    ]
    for name, words in NAMES.items():
        own = [entry[name] for entry in first]
        spent = Measured.mean([each["calls"] for each in own]) if own else None
        found = Measured.rate(sum(each["place"] == 1 for each in own), len(own)) if own else None
        rows.append({"algorithm": words, "found first": found, "model calls": spent, "published": Published(None)})
    calls = [entry[CERTAIN]["calls"] for entry in first if entry[CERTAIN]["place"] == 1]
    also = [entry[BATCHED]["place"] == 1 for own in certain for entry in own]
    claims = [
        all_of(
            f"shortest path finds a secret of rank 1 with {FEWER:,.0f} times fewer calls than brute force",
            [each[CERTAIN]["place"] == 1 and each[CERTAIN]["calls"] * FEWER <= 10**9 for each in first],
            f"epochs whose secret has rank 1; {min(calls, default=0):,} to {max(calls, default=0):,} calls",
        ),
        all_of("the paper's stop finds what the certain one finds", also, "epochs"),
        _rarely(certain),
    ]
    notes = ["Found first: as the best guess, of all epochs after which the secret has rank 1.", INDEPENDENT]
    columns = ["algorithm", "found first", "model calls", "published"]
    return Report(columns, rows, claims, [*set_up(trials, plan), *notes])


def _rarely(by_model: Sequence[Sequence[Config]]) -> Claim:
    """That of a model's secrets of rank 1 the widest beam search finds less than half, as a rule."""
    every = [entry for own in by_model for entry in own]
    found = {name: sum(entry[name]["place"] == 1 for entry in every) for name in BEAMS}
    shown = ", ".join(f"width {name.split()[1]}: {hits} of {len(every)} epochs" for name, hits in found.items())
    seldom = [2 * sum(entry[BEAMS[-1]]["place"] == 1 for entry in own) < len(own) for own in by_model]
    words = "beam search, the widest, finds less than half of the secrets that shortest path finds"
    return as_a_rule(words, seldom, f"models; {shown}")


def estimator_trials(plan: StudyPlan) -> list[Config]:
    """A secret of five digits, whose true rank can be had, looked at by every estimator after every epoch."""
    watch = Watch(("exact", "every text"), ("exact", "estimated", "sampled", "extrapolated"), (0,))
    return configs(plan, watch=watch, template=SHORT.get(plan.scale, USUAL), controls=1)


def estimators(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """The estimators beside the truth, epoch by epoch."""
    looks = list(every_look(trials, controls=True))
    rows = [_row(*look) for look in looks]
    claims = [
        *(_covers(rows, name) for name in ESTIMATORS[:2]),
        _same(trials),
        _nearest([entry for _, _, entry in looks]),
    ]
    notes = [INDEPENDENT, "The secret has so few fillings that all can be counted. One control is looked at as well."]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), *notes])


def _row(seed: int, epoch: int, entry: Config) -> TableRow:
    """One canary after one epoch: the truth, and what each estimator says; ``≥`` where that is a lower bound."""
    row: TableRow = {"seed": seed, "epoch": epoch, "canary": entry["canary"], "exact": entry["exact"]["bits"]}
    for name in ESTIMATORS:
        found = entry[name]
        within = found["low"] - 1e-9 <= entry["exact"]["bits"] <= found["high"] + 1e-9
        row[name] = f"≥ {found['bits']:.3g}" if found["method"] == "lower_bound" else found["bits"]
        row[f"{name}: within"] = "yes" if within else "no"
    return {**row, "fit": "rejected" if entry["extrapolated"]["rejected"] else "not rejected"}


def _nearest(found: Sequence[Config]) -> Claim:
    """That importance draws are nearest to the truth on average, lower bounds taken as they are."""
    errors = {name: [abs(each[name]["bits"] - each["exact"]["bits"]) for each in found] for name in ESTIMATORS}
    shown = ", ".join(f"{name} {fmean(values):.2f} (largest {max(values):.2f})" for name, values in errors.items())
    return Claim(
        "importance draws come nearest to the truth of the three estimates",
        all(fmean(errors["estimated"]) <= fmean(values) for values in errors.values()),
        f"mean error in bits, lower bounds as they are: {shown}",
    )


def _covers(rows: Sequence[TableRow], name: str) -> Claim:
    """That an estimator's 95 % intervals hold the truth at least that often (one-sided binomial test)."""
    from scipy import stats

    inside = sum(row[f"{name}: within"] == "yes" for row in rows)
    p = stats.binomtest(inside, len(rows), 0.95, alternative="less").pvalue
    return Claim(f"the 95 % interval of '{name}' covers", bool(p >= 0.05), f"{inside} of {len(rows)}, p = {p:.2g}")


def _same(trials: Sequence[StudyTrial]) -> Claim:
    found = [entry for trial in trials for entry in entries([trial])]
    differs = [abs(entry["exact"]["bits"] - entry["every text"]["bits"]) for entry in found]
    return Claim("pruned search counts what scoring every text counts", max(differs) == 0, f"{len(found)} models")


register_study("table-9", "the likeliest fillings", "Table 9 (Appendix B)", long_trials, table_9)
register_study("extraction", "extraction algorithms", "section 7.1", extraction_trials, extraction)
register_study("estimators", "exposure's estimators beside the truth", "beyond the paper", estimator_trials, estimators)

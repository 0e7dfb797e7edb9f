"""Table 9 and section 7.1 of The Secret Sharer: the likeliest fillings, and the algorithms that find them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow
from leakage_tasks.research.secret_sharer.claims import all_of
from leakage_tasks.research.secret_sharer.experiment import Watch, configs
from leakage_tasks.research.secret_sharer.figures import long_trials
from leakage_tasks.research.secret_sharer.trials import (
    FEWER,
    INDEPENDENT,
    WHOLE,
    entries,
    every_look,
    register_study,
    set_up,
)
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
    every = [entry for _, _, entry in every_look(trials)]
    first = [entry for entry in every if entry["exposure"]["bits"] > WHOLE - 0.5]
    rows: list[TableRow] = [
        {"algorithm": "brute force (not run)", "model calls": 10**9, "published": Published("10^9, 4 hours")}
    ]
    for name, words in NAMES.items():
        own = [entry[name] for entry in first]
        spent = Measured.mean([each["calls"] for each in own]) if own else None
        found = Measured.rate(sum(each["place"] == 1 for each in own), len(own)) if own else None
        rows.append({"algorithm": words, "found first": found, "model calls": spent, "published": Published(None)})
    calls = [entry[CERTAIN]["calls"] for entry in first if entry[CERTAIN]["place"] == 1]
    missed = {name: sum(_place(each, CERTAIN) == 1 != _place(each, name) for each in every) for name in BEAMS}
    claims = [
        all_of(
            f"shortest path finds a secret of rank 1 with {FEWER:,.0f} times fewer calls than brute force",
            [_place(each, CERTAIN) == 1 and each[CERTAIN]["calls"] * FEWER <= 10**9 for each in first],
            f"epochs whose secret has rank 1; {min(calls, default=0):,} to {max(calls, default=0):,} calls",
        ),
        all_of(
            "the paper's stop finds what the certain one finds",
            [_place(each, BATCHED) == 1 for each in every if _place(each, CERTAIN) == 1],
            "epochs",
        ),
        Claim(
            "beam search misses secrets that shortest path finds",
            any(missed.values()) if first else None,
            ", ".join(f"width {name.split()[1]}: {count} epochs" for name, count in missed.items()),
        ),
    ]
    notes = ["Found first: as the best guess, of all epochs after which the secret has rank 1.", INDEPENDENT]
    columns = ["algorithm", "found first", "model calls", "published"]
    return Report(columns, rows, claims, [*set_up(trials, plan), *notes])


def _place(entry: Config, name: str) -> int | None:
    place: int | None = entry[name]["place"]
    return place


register_study("table-9", "the likeliest fillings", "Table 9 (Appendix B)", long_trials, table_9)
register_study("extraction", "extraction algorithms", "section 7.1", extraction_trials, extraction)

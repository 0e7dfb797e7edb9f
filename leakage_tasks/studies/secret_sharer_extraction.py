"""Table 9 and section 7.1 of The Secret Sharer: the likeliest fillings, and the algorithms that find them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from leakage_tasks.studies.registry import Plan, Trial
from leakage_tasks.studies.report import Claim, Measured, Published, Report
from leakage_tasks.studies.secret_sharer_claims import all_of
from leakage_tasks.studies.secret_sharer_run import FEWER, WHOLE, long_trials
from leakage_tasks.studies.secret_sharer_trials import entries, register_study, set_up

PUBLISHED_GUESS = (
    *((14.63, 0), (18.56, 1), (19.01, 1), (20.65, 2), (20.88, 9)),
    *((20.99, 3), (20.99, 1), (21.16, 2), (21.36, 1), (21.90, 2)),
)
"""The first ten of Table 9: log-perplexity, and in how many of nine places the guess differs from the secret."""
NAMES = {
    "shortest path, certain": "shortest-path",
    "shortest path, the paper's stop": "batched",
    "beam search, width 100": "beam",
    "generative sampling, until found": "sampling",
}
"""The algorithms, and the measures that tell what they found."""


def table_9(trials: Sequence[Trial], plan: Plan) -> Report:
    """The likeliest fillings of one model."""
    entry = entries(trials)[0]
    rows = []
    for place, guess in enumerate(entry["cheapest"], 1):
        cost, wrong = PUBLISHED_GUESS[place - 1]
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


def extraction(trials: Sequence[Trial], plan: Plan) -> Report:
    """Section 7.1: which algorithm finds the secret, and with how many model calls."""
    found = entries(trials)
    rows: list[dict[str, Any]] = [
        {
            "algorithm": "brute force (not run)",
            "found": None,
            "model calls": 10**9,
            "published": Published("10^9, 4 hours"),
        }
    ]
    for words, name in NAMES.items():
        own = [entry[name] for entry in found]
        rows.append(
            {
                "algorithm": words,
                "found": Measured.rate(sum(each["place"] is not None for each in own), len(own)),
                "likeliest": Measured.rate(sum(each["place"] == 1 for each in own), len(own)),
                "model calls": Measured.mean([each["calls"] for each in own]),
                "published": Published(None),
            }
        )
    whole = [entry for entry in found if entry["exposure"]["bits"] > WHOLE - 0.5]
    claims = [
        all_of(
            f"shortest path finds a secret of rank 1 with {FEWER:,.0f} times fewer calls than brute force",
            [e["shortest-path"]["place"] == 1 and e["shortest-path"]["calls"] * FEWER <= 10**9 for e in whole],
            "models whose secret has rank 1",
        ),
        all_of(
            "the paper's stop finds what the certain one finds",
            [e["batched"]["place"] == e["shortest-path"]["place"] for e in found],
            "models",
        ),
        Claim(
            "beam search misses secrets that shortest path finds",
            any(e["shortest-path"]["place"] == 1 != e["beam"]["place"] for e in found),
            f"missed by beam alone: {sum(e['shortest-path']['place'] == 1 != e['beam']['place'] for e in found)} of "
            f"{len(found)}",
        ),
    ]
    columns = ["algorithm", "found", "likeliest", "model calls", "published"]
    return Report(columns, rows, claims, [*set_up(trials, plan), "Found: among the ten guesses. At the best epoch."])


register_study("table-9", "the likeliest fillings", "Table 9 (Appendix B)", long_trials, table_9)
register_study("extraction", "extraction algorithms", "section 7.1", long_trials, extraction)

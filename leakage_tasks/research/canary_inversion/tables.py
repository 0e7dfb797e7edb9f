"""Tables 2, 4 and 5 of Parikh, Dupuy and Gupta, "Canary Extraction in Natural Language Understanding Models" (2022).

HDT is the Hamming distance per token, n the number of unknown tokens, and R the number of copies of a canary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from leakage_tasks.research.canary_inversion import counts
from leakage_tasks.research.canary_inversion.trials import ONE_START, PATTERNS, chosen, register_study, victims
from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Published, Report, TableRow

LENGTHS = (4, 6, 8, 10)
Best = Mapping[tuple[str, int], tuple[int, float, float]]
TABLE_2: Best = {
    ("color", 4): (10, 0.40, 0.30), ("color", 6): (100, 0.30, 0.45),
    ("color", 8): (100, 0.10, 0.60), ("color", 10): (500, 0.00, 0.59),
    ("pin", 4): (500, 0.40, 0.27), ("pin", 6): (100, 0.10, 0.45),
    ("pin", 8): (100, 0.00, 0.61), ("pin", 10): (100, 0.10, 0.43),
    ("call", 4): (10, 0.30, 0.40), ("call", 6): (100, 0.20, 0.50),
    ("call", 8): (100, 0.00, 0.60), ("call", 10): (500, 0.00, 0.59),
}  # fmt: skip
"""R, accuracy and HDT by pattern and n, the best over R ∈ {10, 100, 500}."""
TABLE_5: Best = {
    **TABLE_2,
    ("color", 8): (1000, 0.10, 0.48), ("color", 10): (1000, 0.00, 0.59),
    ("pin", 4): (1000, 0.50, 0.18), ("pin", 6): (1000, 0.10, 0.43), ("pin", 8): (1000, 0.00, 0.57),
    ("call", 8): (1000, 0.00, 0.58), ("call", 10): (2000, 0.00, 0.59),
}  # fmt: skip
"""R, accuracy and HDT by pattern and n, the best over R ∈ {10, 100, 500, 1000, 2000}."""
TABLE_4 = {
    ("color", 4): (0.33, 0.43), ("pin", 4): (0.10, 0.60), ("call", 4): (0.10, 0.58), ("call", 10): (0.00, 0.68),
    ("call", 7): (0.10, 0.70),
}  # fmt: skip
"""Accuracy and HDT by pattern and n at R = 1. n = 7 is the ten-digit number with a known area code."""
MOST_LEAKED = 1000
"""R at which the paper's attack does best."""
LONGER = PaperClaim("longer canaries are harder (HDT by n)")
LEAKS_MOST = PaperClaim("R = 1000 leaks most, more copies leak less", "0.18 at 1000, 0.27 at up to 500 (pin, n = 4)")
SINGLE_COPY = PaperClaim("a single copy leaks")
AREA_CODE = PaperClaim(
    "a known area code helps to extract the rest of a number (HDT with vs without)",
    "accuracy 0.1 vs 0, but HDT 0.70 vs 0.68",
    "many more victims, because no whole number was extracted",
)
TRIED = "this scale has fewer copies: run it at `--scale paper`"
REPEATS: Mapping[Scale, Mapping[int, Sequence[int]]] = {
    "smoke": {4: (100,), 6: (100,)},
    "small": {4: (100, 500), 6: (10, 100, 500, 1000), 8: (100,), 10: (100,)},
    "paper": dict.fromkeys(LENGTHS, (10, 100, 500, 1000, 2000)),
}
"""R for each n, in the paper's count of copies."""


def by_length(plan: StudyPlan, most: int) -> list[Config]:
    """List the trials of victims without defences, for each n and each R up to ``most``."""
    return [
        config
        for unknown, repeats in REPEATS[plan.scale].items()
        for copies in repeats
        if copies <= most
        for config in undefended(plan, unknown, copies)
    ]


def undefended(plan: StudyPlan, unknown: int, copies: int) -> list[Config]:
    """List the trials of victims without defences. The shortest canaries are also attacked in embedding space."""
    attacks = ["published", ONE_START, *(["embedding"] if unknown == LENGTHS[0] else [])]
    return victims(plan, dict.fromkeys(PATTERNS, unknown), copies, attacks=attacks)


def best_by_length(trials: Sequence[StudyTrial], plan: StudyPlan, published: Best) -> Report:
    """Report accuracy and HDT by pattern and n, at the R with the lowest HDT."""
    lengths = [unknown for unknown in LENGTHS if unknown in REPEATS[plan.scale]]
    rows = [_best_row(trials, pattern, unknown, published) for pattern in PATTERNS for unknown in lengths]
    shortest = {pattern: list(_by_copies(trials, pattern, lengths[0]).values()) for pattern in PATTERNS}
    relaxed, single, baseline = (
        {
            pattern: counts.pooled(counts.distances(entries, attack) for entries in by_copies)
            for pattern, by_copies in shortest.items()
        }
        for attack in ("published", ONE_START, "embedding")
    )
    growing = list[Sequence[float]]()
    for pattern in PATTERNS:
        columns = [counts.distances(chosen(trials, pattern, unknown, published_copies=100)) for unknown in lengths]
        growing += zip(*columns, strict=True)
    all_entries = [entry for pattern in PATTERNS for unknown in lengths for entry in chosen(trials, pattern, unknown)]
    claims = [
        counts.below_chance(counts.BEATS_GUESS.test(f"every pattern over all R, n = {lengths[0]}"), relaxed),
        counts.rises(LONGER.test("at R = 100"), growing),
        counts.at_chance("the embedding-space attack is no better than chance", baseline),
        counts.below_chance(f"from a single start, too, n = {lengths[0]} is below chance for every pattern", single),
        counts.closer(
            "our discrete finish lowers HDT",
            counts.distances(all_entries, when=counts.FINISHED),
            counts.distances(all_entries),
        ),
    ]
    claims += _repetition_claims(trials, lengths) if published is TABLE_5 else []
    note = (
        "Each row has the R with the lowest HDT, chosen after the fact as in the paper. 'Finished' is this run after "
        "coordinate search; exposure is computed for the true filling under the attack's loss. Embeddings also take "
        "the best of five restarts by loss, which is better than chance by itself: see nlu/variants."
    )
    shown = "; ".join(f"n = {n}: {', '.join(map(str, repeats))}" for n, repeats in REPEATS[plan.scale].items())
    tried = [] if plan.scale == "paper" else [f"Values of R, in the paper's count: {shown}."]
    return Report(list(rows[0]), rows, claims, [*counts.set_up(trials, plan), *tried, note])


table_2_trials, table_2 = partial(by_length, most=500), partial(best_by_length, published=TABLE_2)
"""Studies with n ∈ {4, 6, 8, 10} and R up to 500."""
table_5_trials, table_5 = partial(by_length, most=2000), partial(best_by_length, published=TABLE_5)
"""Studies with n ∈ {4, 6, 8, 10} and all R."""


def _repetition_claims(trials: Sequence[StudyTrial], lengths: Sequence[int]) -> list[Claim]:
    """Return claims that the attack does best at R = 1000: better than with fewer copies, and than with more."""
    fewer, best, more = list[float](), list[float](), list[float]()
    for pattern, unknown in product(PATTERNS, lengths):
        for copies, entries in _by_copies(trials, pattern, unknown).items():
            (fewer if copies < MOST_LEAKED else more if copies > MOST_LEAKED else best).extend(
                counts.distances(entries)
            )
    claims = [
        counts.lower(LEAKS_MOST.test("lower HDT than with fewer copies"), best, fewer),
        counts.lower(LEAKS_MOST.test("lower HDT than with more copies"), best, more),
    ]
    return [
        replace(claim, takes="" if best and others else TRIED)
        for claim, others in zip(claims, (fewer, more), strict=True)
    ]


def _by_copies(trials: Sequence[StudyTrial], pattern: str, unknown: int) -> dict[int, list[Config]]:
    """Return the results of a pattern of one length at each R."""
    repeats = sorted({trial.config["published_copies"] for trial in trials})
    entries = {copies: chosen(trials, pattern, unknown, published_copies=copies) for copies in repeats}
    return {copies: group for copies, group in entries.items() if group}


def _best_row(trials: Sequence[StudyTrial], pattern: str, unknown: int, published: Best) -> TableRow:
    published_copies, published_accuracy, distance = published[pattern, unknown]
    by_copies = _by_copies(trials, pattern, unknown)
    copies = min(by_copies, key=lambda candidate: (sum(counts.distances(by_copies[candidate])), candidate))
    setting: TableRow = {"canary": pattern, "n": unknown, "R, published": Published(published_copies), "R": copies}
    return setting | _figures(by_copies[copies], pattern, published_accuracy, distance, "embedding")


def _figures(
    entries: Sequence[Config], pattern: str, published_accuracy: float, distance: float, *others: str
) -> TableRow:
    """Return published and measured accuracy and HDT, HDT of ``others`` among the attacks, chance and exposure."""
    return {
        "Acc, published": Published(published_accuracy),
        "Acc": counts.accuracy(entries),
        "HDT, published": Published(distance),
        "HDT one start": counts.hdt(entries, ONE_START),
        "HDT": counts.hdt(entries),
        "HDT finished": counts.hdt(entries, when=counts.FINISHED),
        **{f"HDT {attack}": counts.hdt(entries, attack) for attack in others},
        "chance": round(counts.chance(pattern), 3),
        "exposure (bits)": counts.exposure(entries, pattern),
    }


def table_4_trials(plan: StudyPlan) -> list[Config]:
    """List trials with a single copy: n = 4 for all patterns, and calls with 10 digits or 7 after a known area code."""
    seven = victims(plan, {"call": 7}, 1, area_code=True)
    return [*undefended(plan, 4, 1), *victims(plan, {"call": 10}, 1), *seven]


def table_4(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report accuracy and HDT of canaries with one copy in the training set."""
    rows: list[TableRow] = [
        {
            "n": unknown,
            "canary": pattern + (", area code known" if unknown == 7 else ""),
            **_figures(chosen(trials, pattern, unknown), pattern, *published),
        }
        for (pattern, unknown), published in TABLE_4.items()
    ]
    four = {pattern: counts.hdt(chosen(trials, pattern, 4)) for pattern in PATTERNS}
    seven, ten = (counts.distances(chosen(trials, "call", unknown)) for unknown in (7, 10))
    claims = [
        counts.below_chance(SINGLE_COPY.test("below chance at n = 4"), four),
        counts.lower(AREA_CODE.test("seven digits and ten"), seven, ten),
    ]
    note = "One copy is a larger share here than in the paper, which has more utterances."
    return Report(
        list(rows[0]), rows, claims, [*counts.set_up(trials, plan), *([note] if plan.scale != "paper" else [])]
    )


register_study("table-2", "accuracy and HDT by pattern and n, best over R", "Table 2", table_2_trials, table_2)
register_study("table-4", "canaries with one copy in the training set", "Table 4", table_4_trials, table_4)
register_study("table-5", "accuracy and HDT by pattern and n, best over more R", "Table 5", table_5_trials, table_5)

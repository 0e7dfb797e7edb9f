"""Tables 2, 3 and 4 of Elmahdy, Inan and Sim, "Privacy leakage in text classification" (2022)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from leakage_tasks.research.elmahdy.counts import (
    SearchOutcome,
    against_guess,
    control_success,
    leak_alike,
    leaks_more,
    register_study,
    report_of,
    select,
    success,
    with_copies,
)
from leakage_tasks.research.elmahdy.trials import BEAM, PENALTIES, SEEDS, VALUES, main_victim, victim
from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Cell, Measured, Published, Report, TableRow

TABLE_2 = {
    0.0: (0.8, 0.2, 0.0),
    0.01: (0.9, 0.3, 0.0),
    0.1: (0.7, 0.1, 0.0),
    1.0: (0.3, 0.1, 0.0),
    10.0: (0.1, 0.0, 0.0),
}
TABLE_3 = {
    (50, 100): 0.7, (50, 50): 0.5, (50, 25): 0.1, (50, 10): 0.0,
    (100, 100): 0.9, (100, 50): 0.5, (100, 25): 0.3, (100, 10): 0.1,
    (200, 100): 1.0, (200, 50): 0.9, (200, 25): 0.4, (200, 10): 0.2,
}  # fmt: skip
TABLE_4 = {
    (99, 50): 0.5, (99, 100): 0.5, (99, 200): 0.5,
    (50, 50): 0.4, (50, 100): 0.4, (50, 200): 0.5,
    (25, 50): 0.4, (25, 100): 0.5, (25, 200): 0.5,
    (0, 50): 0.1, (0, 100): 0.1, (0, 200): 0.1,
}  # fmt: skip
GUESS = {50: 0.0029, 100: 0.0058, 200: 0.0117}
"""Success of a random guess as the paper prints it, for the last token; GUESS_TWO is for the last two tokens in Table
2.
"""
GUESS_TWO = 3.4e-5
BEAMS = tuple(GUESS)
LEAKS = PaperClaim("the last token is extracted more often than by random guess", "0.9 vs 0.0058")
HARDER = PaperClaim("each further unknown token makes extraction harder", "0.9, 0.3, 0")
NO_PENALTY = PaperClaim("λ = 0 reduces success only slightly", "0.8 vs 0.9")
LARGE_PENALTY = PaperClaim("a large λ reduces success", "0.1 vs 0.9")
BEATS_GUESS = PaperClaim("the attack beats a random guess", "0.9 vs 0.0058")
REPETITIONS = PaperClaim("more repetitions leak more", "0.9, 0.5, 0.3, 0.1")
NO_SUPPORT = PaperClaim("the canary is extracted even without supporting canaries", "0.1 vs 0.0058")
SUPPORT = PaperClaim("a supporting canary in another class helps greatly", "0.5 vs 0.1")
SUPPORT_COPIES = PaperClaim("the number of copies of the supporting canary has no effect", "0.5, 0.4, 0.5")
ALL_SUPPORT = PaperClaim("supporting canaries in all other classes raise success greatly", "0.8 vs 0.1")


def table_2_trials(plan: StudyPlan) -> list[Config]:
    """List trials with the last one, two and three tokens unknown; the longer searches get fewer seeds."""
    one = [main_victim(plan, seed) for seed in plan.seeds(SEEDS[plan.scale])]
    more = plan.seeds(2 if plan.scale == "small" else SEEDS[plan.scale])
    return [*one, *(victim(plan, seed, unknown=n, penalties=list(PENALTIES)) for n in (2, 3) for seed in more)]


def table_2(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report success within a beam of 100 by penalty."""
    size = trials[0].result["alphabet"]
    last = {unknown: select(trials, unknown=unknown) for unknown in (1, 2, 3)}
    rows: list[TableRow] = []
    for penalty in PENALTIES:
        rates = [success(group, BEAM, penalty) for group in last.values()]
        rows.append(_by_unknown(penalty, map(Published, TABLE_2[penalty]), rates))
    # A random guess by the formula of the paper, and as it is for a beam of whole tuples.
    printed, whole = [f"{(BEAM / size) ** n:.2g}" for n in last], [f"{BEAM / size**n:.2g}" for n in last]
    rows.append(_by_unknown(f"guess, (k/|V|)^n, |V| = {size}", map(Published, (GUESS[BEAM], GUESS_TWO, None)), printed))
    rows.append(_by_unknown("guess, k/|V|^n", (None, None, None), whole))
    one, two, three = (SearchOutcome.of(group, BEAM, 0.01) for group in last.values())
    without_penalty, large_penalty = (SearchOutcome.of(last[1], BEAM, penalty) for penalty in (0.0, 10.0))
    claims = [
        against_guess(success(last[1], BEAM, 0.01), BEAM / size, LEAKS.words),
        leaks_more(one, two, HARDER.test("two tokens are harder than one")),
        leaks_more(two, three, HARDER.test("three are harder than two")),
        leaks_more(without_penalty, one, NO_PENALTY.test("no worse than λ = 0.01"), or_as_much=True),
        leaks_more(one, large_penalty, LARGE_PENALTY.test("λ = 10 is worse than 0.01")),
        against_guess(control_success(last[1], BEAM), BEAM / size, "controls stay at chance", at_chance=True),
    ]
    values = "all of V" if plan.scale == "paper" else f"the {VALUES} best values by gradient"
    extra = f"Two and three tokens: all of V is scored for the first token; each filling continues with {values}."
    return report_of(rows, claims, trials, plan, extra)


def _by_unknown(first: Cell, published: Iterable[Cell], measured: Iterable[Cell]) -> TableRow:
    """Return a row with a published and a measured cell for one, two and three unknown tokens."""
    row: TableRow = {"λ": first}
    for n, theirs, ours in zip((1, 2, 3), published, measured, strict=True):
        row |= {f"last {n}, published": theirs, f"last {n}": ours}
    return row


def table_3_trials(plan: StudyPlan) -> list[Config]:
    """List trials with different repetitions of the canary."""
    seeds = plan.seeds(SEEDS[plan.scale])
    fewer = [victim(plan, seed, repetitions=r) for r in (50, 25, 10) for seed in seeds]
    return [*(main_victim(plan, seed) for seed in seeds), *fewer]


def table_3(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report success on the last token by repetitions and beam size at λ = 0.01."""
    size = trials[0].result["alphabet"]
    by_copies = {r: with_copies(trials, repetitions=r) for r in (100, 50, 25, 10)}
    rows = [
        _row(r, k, Published(TABLE_3[k, r]), success(group, k, 0.01), size)
        for k in BEAMS
        for r, group in by_copies.items()
    ]
    leaked = {r: SearchOutcome.of(group, 100, 0.01) for r, group in by_copies.items()}
    claims = [
        against_guess(success(by_copies[100], 100, 0.01), 100 / size, BEATS_GUESS.words),
        leaks_more(leaked[100], leaked[10], REPETITIONS.test("100 leak more than 10")),
        *(
            leaks_more(leaked[r], leaked[q], REPETITIONS.test(f"{r} leak no less than {q}"), or_as_much=True)
            for r, q in pairwise(leaked)
        ),
    ]
    return report_of(rows, claims, trials, plan)


def _row(repetitions: int | str, k: int, published: Published | None, rate: Measured | None, size: int) -> TableRow:
    return {
        "repetitions": repetitions,
        "beam": k,
        "published": published,
        "measured": rate,
        "guess, published": Published(GUESS[k]),
        "guess": f"{k / size:.4f}",
    }


def table_4_trials(plan: StudyPlan) -> list[Config]:
    """List trials with supporting canaries in one other class, in all other classes, and in no class."""
    seeds = plan.seeds(SEEDS[plan.scale])
    one = [victim(plan, seed, supporting="one", supporting_repetitions=r) for r in (99, 50, 25) for seed in seeds]
    none = [victim(plan, seed, supporting="none") for seed in seeds]
    return [*one, *none, *(main_victim(plan, seed) for seed in seeds)]


def table_4(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report success on the last token by copies of the supporting canary in one other class at λ = 0."""
    size = trials[0].result["alphabet"]
    by_support = {
        **{r: with_copies(trials, supporting="one", supporting_repetitions=r) for r in (99, 50, 25)},
        0: select(trials, supporting="none"),
    }
    rows = [
        _row(r, k, Published(TABLE_4[r, k]), success(group, k, 0.0), size)
        for r, group in by_support.items()
        for k in BEAMS
    ]
    in_all = select(trials, supporting="all")
    # Table 2 has this setting for a beam of 100 and λ = 0.
    published = {BEAM: Published(TABLE_2[0.0][0])}
    rows += [_row("1 in all", k, published.get(k), success(in_all, k, 0.0), size) for k in BEAMS]
    one, none, all_others = (SearchOutcome.of(group, 100, 0.0) for group in (by_support[25], by_support[0], in_all))
    claims = [
        leaks_more(all_others, one, "a supporting canary in all other classes beats one in a single class"),
        leaks_more(one, none, SUPPORT.words),
        leaks_more(all_others, none, ALL_SUPPORT.words),
        against_guess(success(by_support[0], 100, 0.0), 100 / size, NO_SUPPORT.words),
        leak_alike(
            {r: SearchOutcome.of(by_support[r], 100, 0.0) for r in (99, 50, 25)},
            SUPPORT_COPIES.words,
        ),
    ]
    return report_of(rows, claims, trials, plan)


register_study(
    "table-2",
    "extraction of the last one, two and three tokens by penalty λ",
    "Table 2",
    table_2_trials,
    table_2,
)
register_study(
    "table-3",
    "extraction of the last token by repetitions and beam size",
    "Table 3",
    table_3_trials,
    table_3,
)
register_study(
    "table-4",
    "extraction of the last token by copies of a supporting canary in one other class",
    "Table 4",
    table_4_trials,
    table_4,
)

"""Figures 2 to 5 of Parikh, Dupuy and Gupta (2022): HDT by repetitions and by data set.

HDT is the Hamming distance per token, n the number of unknown tokens, and R the number of copies of a canary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from leakage_tasks.research.canary_inversion import counts
from leakage_tasks.research.canary_inversion.experiment import ATIS, GENERATED, SNIPS, ground_at
from leakage_tasks.research.canary_inversion.tables import REPEATS, undefended
from leakage_tasks.research.canary_inversion.trials import PATTERNS, chosen, register_study, victims
from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.plots import plotter
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Published, Report, TableRow

MIXED = {"color": 4, "pin": 4, "call": 10}
"""n in Figures 3 to 5."""
SHOWN = {SNIPS: "Snips", ATIS: "ATIS", GENERATED: "generated"}
COPIES: Mapping[Scale, Mapping[str, Sequence[int]]] = {
    "smoke": {SNIPS: (100,), ATIS: (100,), GENERATED: (100,)},
    "small": {SNIPS: (100,), ATIS: (10, 100), GENERATED: (10, 100)},
    "paper": {SNIPS: (10, 100, 500, 1000, 2000), ATIS: (10, 100, 200, 500), GENERATED: (10, 100, 200, 500)},
}
"""R for each data set; the paper uses 100 to 10,000 for NLU-Evaluation, which is six times as large."""
COPIES_LEAK = PaperClaim("more copies leak more, up to R = 1000 (right slots by R)")
SETS_ALIKE = PaperClaim("Snips and ATIS leak equally (HDT)")
THIRD_SET = PaperClaim("the third set leaks least (HDT of Snips vs the third set)")
INSTEAD = (
    "A generated set replaces NLU-Evaluation, which has 25,000 utterances; the paper's claims about it are "
    "tested on different data."
)


def figure_2_trials(plan: StudyPlan) -> list[Config]:
    """List trials with six unknown tokens at several R."""
    return [config for copies in REPEATS[plan.scale][6] for config in undefended(plan, 6, copies)]


def figure_2(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report Hamming distance per token (HDT) by number of copies R, for n = 6 unknown tokens."""
    by_copies = {c: chosen_at(trials, SNIPS, plan, c, dict.fromkeys(PATTERNS, 6)) for c in REPEATS[plan.scale][6]}
    rows = [{"R": copies, **_patterns(entries)} for copies, entries in by_copies.items()]
    by_pattern = {
        pattern: [counts.distances(entries[pattern]) for entries in by_copies.values()] for pattern in PATTERNS
    }
    fewer_wrong = [[1 - value for value in row] for groups in by_pattern.values() for row in zip(*groups, strict=True)]
    claims = [
        counts.below_chance(
            counts.BEATS_GUESS.test("every pattern over all R"),
            {pattern: counts.pooled(groups) for pattern, groups in by_pattern.items()},
        ),
        counts.rises(COPIES_LEAK.test("the paper's values are not monotonic"), fewer_wrong),
    ]
    return Report(list(rows[0]), rows, claims, [*counts.set_up(trials, plan), SHARED])


SHARED = "Trials of one seed share their secrets at every R, and all trials share their utterances."


def chosen_at(
    trials: Sequence[StudyTrial], data: str, plan: StudyPlan, copies: int, unknown: Mapping[str, int]
) -> dict[str, list[Config]]:
    """Return the results of each pattern on one data set at one R."""
    data_name = ground_at(plan.scale, data).data
    return {p: chosen(trials, p, n, set=data_name, published_copies=copies) for p, n in unknown.items()}


def _patterns(by_pattern: Mapping[str, list[Config]]) -> TableRow:
    row: TableRow = {"published": Published(None)}
    for pattern in PATTERNS:
        row |= {
            pattern: counts.hdt(by_pattern[pattern]),
            f"{pattern} finished": counts.hdt(by_pattern[pattern], when=counts.FINISHED),
            f"{pattern} Acc": counts.accuracy(by_pattern[pattern]),
        }
    return row


def figure_3_trials(plan: StudyPlan) -> list[Config]:
    """List trials on the three data sets."""
    return [config for data in SHOWN for config in by_set_trials(plan, data)]


def by_set_trials(plan: StudyPlan, data: str) -> list[Config]:
    """List trials on one data set at each of its R."""
    return [config for copies in COPIES[plan.scale][data] for config in victims(plan, MIXED, copies, data=data)]


def figure_3(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report Hamming distance per token (HDT) by data set, at the R with the lowest HDT as in the paper's best
    results."""
    rows, best, notes = [], {}, []
    for data in SHOWN:
        by_copies = {copies: chosen_at(trials, data, plan, copies, MIXED) for copies in COPIES[plan.scale][data]}
        copies = min(
            by_copies,
            key=lambda candidate: (
                sum(sum(counts.distances(entries)) for entries in by_copies[candidate].values()),
                candidate,
            ),
        )
        best[data], title = by_copies[copies], SHOWN[ground_at(plan.scale, data).data]
        rows.append({"set": title, "R": copies, **_patterns(best[data])})
        notes += [f"{title}: {note}" for note in counts.set_up(trials, plan, data)]
    short = {
        data: [v for p in ("pin", "color") for v in counts.distances(entries[p])] for data, entries in best.items()
    }
    claims = [
        counts.alike(
            SETS_ALIKE.test(f"shorter canaries, within {counts.MARGIN}"),
            short[SNIPS],
            short[ATIS],
        ),
        counts.lower(THIRD_SET.words, short[SNIPS], short[GENERATED]),
        *(
            counts.below_chance(
                f"{SHOWN[data]}: the attack is below chance", {p: counts.hdt(entries[p]) for p in PATTERNS}
            )
            for data, entries in best.items()
        ),
    ]
    chosen_after = "The R of lowest HDT for each set, chosen after the fact."
    return Report(list(rows[0]), rows, claims, [*dict.fromkeys(notes), chosen_after, INSTEAD])


def by_set(trials: Sequence[StudyTrial], plan: StudyPlan, data: str) -> Report:
    """Report Hamming distance per token (HDT) by number of copies R on one data set."""
    by_copies = {copies: chosen_at(trials, data, plan, copies, MIXED) for copies in COPIES[plan.scale][data]}
    rows = [{"R": copies, **_patterns(entries)} for copies, entries in by_copies.items()]
    fewest, most = min(by_copies), max(by_copies)
    at_most = {pattern: counts.hdt(entries) for pattern, entries in by_copies[most].items()}
    claims = [counts.below_chance(counts.BEATS_GUESS.test(f"at R = {most}"), at_most)]
    if len(by_copies) > 1:
        many, few = (
            [v for values in by_copies[copies].values() for v in counts.distances(values)] for copies in (most, fewest)
        )
        claims.append(counts.closer(f"R = {most} leaks more than {fewest}", many, few))
    notes = [*counts.set_up(trials, plan, data), SHARED, *([INSTEAD] if data == GENERATED else [])]
    return Report(list(rows[0]), rows, claims, notes)


plot_by_copies, plot_by_set = (
    plotter(label.format_map, {pattern: pattern for pattern in PATTERNS}, counts.AXIS, chance=counts.chance("pin"))
    for label in ("R = {R}", "{set}")
)
register_study("figure-2", "HDT by repetitions, n = 6, Snips", "Figure 2", figure_2_trials, figure_2, plot_by_copies)
register_study("figure-3", "HDT by data set", "Figure 3", figure_3_trials, figure_3, plot_by_set)
for _name, _data in (("figure-4", ATIS), ("figure-5", GENERATED)):
    register_study(
        _name,
        f"HDT by repetitions, {SHOWN[_data]} set",
        f"Figure {_name[-1]}",
        partial(by_set_trials, data=_data),
        partial(by_set, data=_data),
        plot_by_copies,
    )

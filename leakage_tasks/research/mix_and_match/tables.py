"""Tables 2, 3 and 4 of Elmahdy and Salem, "Deconstructing classifiers" (2023): the Mix And Match attack."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from statistics import fmean

from leakage_tasks.canaries.presets.mix_and_match import TABLE_1
from leakage_tasks.research.classifiers.experiment import (
    PAPER_YELP,
    REDDIT,
    ClassifierExperiment,
    at_scale,
    differences,
)
from leakage_tasks.research.classifiers.lab_canaries import SMALL_TABLE
from leakage_tasks.research.framework.group_tests import SIGNIFICANCE, decide
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial, grouped, registrar
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow
from leakage_tasks.research.mix_and_match.published import TABLES, Figures
from leakage_tasks.research.mix_and_match.trials import GENERATORS, PAPER, SMALL, run, victims

SCALES: Mapping[Scale, str] = {
    "smoke": "seconds",
    "small": "5 to 70 minutes of a core",
    "paper": "a GPU for hours, bert-base-cased, Reddit posts as $LEAKAGE_DATA/reddit.jsonl, Yelp from the hub",
}

KINDS = {each.target: each.kind for each in (*SMALL_TABLE, *TABLE_1)}
"""Whether a canary is random or organic, by its target."""

# -- counting -----------------------------------------------------------------------------------------------


def values(trials: Iterable[StudyTrial], generator: str, which: int, canary: str | None = None) -> list[int]:
    """One of the two numbers over trials, for a canary or for all."""
    ranks = (found for trial in trials for found in trial.result["ranks"].items())
    numbers = (own[generator][which] for name, own in ranks if canary in (None, name))
    return [number for number in numbers if number is not None]


def by_data(trials: Iterable[StudyTrial]) -> dict[str, list[StudyTrial]]:
    """Trials by their data set."""
    return grouped(trials, lambda config: str(config["ground"]["data"]))


def from_zero(ranks: Sequence[int], size: int) -> Measured | None:
    """The paper's "Beam size", a place counted from 0 among at most ``size``, as a mean over trials."""
    return Measured.mean([rank - 1 for rank in ranks], size - 1) if ranks else None


def set_up(plan: StudyPlan, paper: ClassifierExperiment = PAPER) -> list[str]:
    """How the studies differ from the paper's; ``paper`` is what the table or figure was made on."""
    found = differences(at_scale(plan.scale, SMALL, paper), paper)
    if plan.scale != "paper":
        found.append("The canaries are others of the same make, of words that the encoder has read.")
    return [*found, "Canaries of one victim are counted as independent."]


def categories(plan: StudyPlan) -> str:
    """Which classes the fourteen canaries are in, a sentence."""
    shared = " (on Yelp the seven share its five)" if plan.scale == "paper" else ""
    return (
        f"Each of the seven categories gets one of the rarest classes{shared}; the paper does not say which it takes."
    )


def generator_claims(trials: Sequence[StudyTrial], canaries: Sequence[str], data: str) -> list[Claim]:
    """The paper's claims about generators, canary by canary."""
    size, claims = trials[0].result["alphabet"], []
    for generator in ("frankenstein", "pretrained"):
        means = [fmean(values(trials, generator, 0, name)) for name in canaries]
        fewer = sum(size >= 3 * each for each in means)
        own, other = ([fmean(values(trials, each, 1, name)) for name in canaries] for each in (generator, "exhaustive"))
        better = sum(2 * one <= two for one, two in zip(own, other, strict=True))
        claims += [
            Claim(
                f"{data}: {generator} needs a third of exhaustive search's candidates, or fewer, for most",
                2 * fewer > len(canaries),
                f"for {fewer} of {len(canaries)} canaries; on average {size / fmean(means):.1f} times fewer",
                sign_p(fewer, len(canaries)),
            ),
            Claim(
                f"{data}: {generator} halves the pruned rank of exhaustive search, or better, for most",
                2 * better > len(canaries),
                f"for {better} of {len(canaries)} canaries (never worse, by construction); mean from 0 "
                f"{fmean(own) - 1:.0f} against {fmean(other) - 1:.0f}",
                sign_p(better, len(canaries)),
            ),
        ]
    return [*claims, _crossing(trials, canaries, data)]


def _crossing(trials: Sequence[StudyTrial], canaries: Sequence[str], data: str) -> Claim:
    """That each generator needs the fewer candidates for canaries of its kind: both means, and Mann and Whitney's test.

    A canary counts once, by the mean over victims, as a language model gives the same for all of them.
    """
    from scipy import stats

    ratios = dict[str, list[float]](random=[], organic=[])
    for name in canaries:
        own, other = (fmean(values(trials, each, 0, name)) for each in ("frankenstein", "pretrained"))
        ratios[KINDS[name]].append(math.log2(own / other))
    words = f"{data}: frankenstein needs fewer candidates for random canaries, the language model for organic ones"
    if not all(ratios.values()):
        return Claim(words, None, "canaries of one kind only")
    p = float(stats.mannwhitneyu(*ratios.values()).pvalue)
    random, organic = map(fmean, ratios.values())
    shown = f"frankenstein's against the language model's: {2**random:.2f} times as many for {len(ratios['random'])} "
    shown += f"random ones, {2**organic:.2f} for {len(ratios['organic'])} organic ones; p = {p:.2g}"
    return Claim(
        words, decide(p < SIGNIFICANCE and random < 0 < organic, p < SIGNIFICANCE and random > organic), shown, p
    )


def sign_p(hits: int, count: int) -> float:
    """p of the sign test that most canaries, or few, are hits."""
    from scipy import stats

    return float(stats.binomtest(hits, count, 0.5).pvalue)


def control_line(trials: Sequence[StudyTrial]) -> str:
    """What the numbers are without a leak."""
    lines = []
    for data, own in by_data(trials).items():
        size = own[0].result["alphabet"]
        found = [ranks["exhaustive"][1] for trial in own for ranks in trial.result["controls"].values()]
        places = Measured.mean([rank for rank in found if rank is not None], size)
        low, high = (round(end) if end is not None else "?" for end in (places.low, places.high))
        lines.append(
            f"{data}: {places.value:.0f} [{low}, {high}] n={places.count}, by chance {(size + 1) / 2:.0f} of {size}"
        )
    return "Controls, never planted, rank by class loss on average: " + "; ".join(lines) + "."


# -- the tables ---------------------------------------------------------------------------------------------


def table_trials(plan: StudyPlan, *, repetitions: int) -> list[Config]:
    """Trials with so many copies, on the paper's two data sets at its own scale."""
    grounds = (PAPER_YELP, PAPER) if plan.scale == "paper" else (PAPER,)
    return [config for ground in grounds for config in victims(plan, ground, repetitions=repetitions)]


def table_report(
    trials: Sequence[StudyTrial], plan: StudyPlan, *, published: Mapping[str, Mapping[str, Figures]]
) -> Report:
    """Top K and Beam size beside the ``published`` ones: target → data set → figures by generator."""
    rows: list[TableRow] = []
    claims: list[Claim] = []
    beside = stand_ins(published)
    for data, own in by_data(trials).items():
        names = list(own[0].result["ranks"])
        for name in names:
            target = beside.get(name, name)
            printed = published[target].get(data) or published[target][REDDIT]
            rows.append({"data": data, **canary_row(own, name, target, printed)})
        claims += generator_claims(own, names, data)
    others = "" if plan.scale == "paper" else ", Reddit's, beside which canaries of the same category stand"
    stars = f"Columns with * are published figures{others}."
    return Report(list(rows[0]), rows, claims, [stars, *set_up(plan), categories(plan), control_line(trials)])


def stand_ins(targets: Iterable[str]) -> dict[str, str]:
    """The paper's target beside each of the lab's: that of the same make, which has the same place."""
    return {own.target: target for own, target in zip(SMALL_TABLE, targets, strict=True)}


def canary_row(trials: Sequence[StudyTrial], name: str, target: str, printed: Figures) -> TableRow:
    """Both numbers of every generator for a canary, ``printed`` ones beside ours; it stands for the paper's target."""
    row: TableRow = {"target": name if name == target else f"{name} ({target})"}
    for (generator, words), figures in zip(GENERATORS.items(), printed, strict=True):
        top = values(trials, generator, 0, name)
        row[f"{words} K*"] = Published(figures[0])
        row[f"{words} K"] = Measured.mean(top, _most(trials)) if generator == "frankenstein" else round(fmean(top))
        row[f"{words} beam*"] = Published(figures[1])
        row[f"{words} beam"] = from_zero(values(trials, generator, 1, name), trials[0].result["alphabet"])
    return row


def _most(trials: Sequence[StudyTrial]) -> float:
    """The last place a generator can give, as far as the config tells."""
    ground = ClassifierExperiment(**trials[0].config["ground"])
    return math.inf if ground.base else ground.vocabulary


register_study = registrar("mix-and-match", "Elmahdy and Salem 2023", SCALES, run)
"""Registers studies of this paper."""

for _number, _repetitions in ((2, 5), (3, 25), (4, 100)):
    register_study(
        f"table-{_number}",
        f"fourteen canaries reconstructed with three generators, {_repetitions} repetitions",
        f"Table {_number}",
        partial(table_trials, repetitions=_repetitions),
        partial(table_report, published=TABLES[_repetitions]),
    )

"""Tables 2, 3 and 4 of Elmahdy and Salem, "Deconstructing classifiers" (2023): the Mix And Match attack.

"Candidates needed" is the rank of the secret token in the generator's list. The "pruned rank" is its rank by class loss
among these candidates.
"""

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
from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial, grouped, registrar
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow
from leakage_tasks.research.mix_and_match.published import TABLES, Figures
from leakage_tasks.research.mix_and_match.trials import GENERATORS, PAPER, SMALL, run, victims

SCALES: Mapping[Scale, str] = {
    "smoke": "seconds",
    "small": "5 to 70 minutes of a core",
    "paper": "a GPU for hours, bert-base-cased, Reddit posts as $LEAKAGE_DATA/reddit.jsonl, Yelp from the hub",
}

KINDS = {canary.target: canary.kind for canary in (*SMALL_TABLE, *TABLE_1)}
"""``random`` or ``organic`` for each canary, by its target."""
MORE_CANARIES = "more canaries, not more runs; even the paper's own values for its fourteen do not pass this test"
CANDIDATES = PaperClaim(
    "the Frankenstein model needs far fewer candidates than exhaustive search (at most a third)",
    "up to 50 times fewer",
    MORE_CANARIES,
)
RANKS = PaperClaim(
    "its candidates improve the token's rank over exhaustive search (at least halved)", takes=MORE_CANARIES
)
PRETRAINED = PaperClaim("the pre-trained language model does about as well", takes=MORE_CANARIES)
KINDS_DIFFER = PaperClaim(
    "the Frankenstein model is better for random canaries, the language model for organic ones", takes=MORE_CANARIES
)

# -- counting -----------------------------------------------------------------------------------------------


def values(trials: Iterable[StudyTrial], generator: str, which: int, canary: str | None = None) -> list[int]:
    """Return candidates needed (0) or pruned rank (1) over trials, for one or all canaries."""
    ranks = (canary_ranks for trial in trials for canary_ranks in trial.result["ranks"].items())
    numbers = (by_generator[generator][which] for name, by_generator in ranks if canary in (None, name))
    return [number for number in numbers if number is not None]


def by_data(trials: Iterable[StudyTrial]) -> dict[str, list[StudyTrial]]:
    """Group trials by data set."""
    return grouped(trials, lambda config: str(config["ground"]["data"]))


def from_zero(ranks: Sequence[int], size: int) -> Measured | None:
    """Return the paper's "Beam size", a rank counted from 0 among ``size`` values, as a mean over trials."""
    return Measured.mean([rank - 1 for rank in ranks], size - 1) if ranks else None


def set_up(plan: StudyPlan, paper: ClassifierExperiment = PAPER) -> list[str]:
    """List the differences from the paper's set-up. ``paper`` is the experiment of the table or figure."""
    sentences = differences(at_scale(plan.scale, SMALL, paper), paper)
    if plan.scale != "paper":
        sentences.append(
            "The canaries differ from the paper's but are of similar kinds, with words that the encoder has read."
        )
    return [*sentences, "Canaries of one victim are treated as independent."]


def categories(plan: StudyPlan) -> str:
    """Describe the classes of the fourteen canaries in a sentence."""
    shared = " (on Yelp the seven share its five)" if plan.scale == "paper" else ""
    return f"Each of the seven categories gets one of the rarest classes{shared}; the paper does not name its classes."


def generator_claims(trials: Sequence[StudyTrial], canaries: Sequence[str], data: str) -> list[Claim]:
    """Return the paper's claims about generators, tested canary by canary."""
    size, claims = trials[0].result["alphabet"], []
    tests = {
        "frankenstein": (CANDIDATES.test(data), RANKS.test(data)),
        "pretrained": (
            PRETRAINED.test(f"a third of the candidates, {data}"),
            PRETRAINED.test(f"half the rank, {data}"),
        ),
    }
    for generator, (third, half) in tests.items():
        means = [fmean(values(trials, generator, 0, name)) for name in canaries]
        fewer = sum(size >= 3 * item for item in means)
        own_ranks, exhaustive_ranks = (
            [fmean(values(trials, item, 1, name)) for name in canaries] for item in (generator, "exhaustive")
        )
        better = sum(2 * one <= two for one, two in zip(own_ranks, exhaustive_ranks, strict=True))
        claims += [
            Claim(
                third,
                2 * fewer > len(canaries),
                f"for {fewer} of {len(canaries)} canaries; on average {size / fmean(means):.1f} times fewer",
                sign_p(fewer, len(canaries)),
            ),
            Claim(
                half,
                2 * better > len(canaries),
                f"for {better} of {len(canaries)} canaries (never worse, by construction); mean rank from 0: "
                f"{fmean(own_ranks) - 1:.0f} against {fmean(exhaustive_ranks) - 1:.0f}",
                sign_p(better, len(canaries)),
            ),
        ]
    return [*claims, _crossing(trials, canaries, data)]


def _crossing(trials: Sequence[StudyTrial], canaries: Sequence[str], data: str) -> Claim:
    """Return the claim that each generator needs fewer candidates for its kind of canaries, by means and the
    Mann-Whitney test.

    Each canary counts once by its mean over victims, because a language model gives one result for all of them.
    """
    from scipy import stats

    ratios = dict[str, list[float]](random=[], organic=[])
    for name in canaries:
        grafted, pretrained = (
            fmean(values(trials, generator, 0, name)) for generator in ("frankenstein", "pretrained")
        )
        ratios[KINDS[name]].append(math.log2(grafted / pretrained))
    words = KINDS_DIFFER.test(data)
    if not all(ratios.values()):
        return Claim(words, None, "canaries of one kind only")
    p = float(stats.mannwhitneyu(*ratios.values()).pvalue)
    random, organic = map(fmean, ratios.values())
    shown = f"Frankenstein's candidates over the language model's: {2**random:.2f} for {len(ratios['random'])} "
    shown += f"random canaries, {2**organic:.2f} for {len(ratios['organic'])} organic canaries; p = {p:.2g}"
    return Claim(
        words, decide(p < SIGNIFICANCE and random < 0 < organic, p < SIGNIFICANCE and random > organic), shown, p
    )


def sign_p(hits: int, count: int) -> float:
    """Return p of the two-sided sign test that most or few canaries are hits."""
    from scipy import stats

    return float(stats.binomtest(hits, count, 0.5).pvalue)


def control_line(trials: Sequence[StudyTrial]) -> str:
    """Describe the numbers of controls, which have no leak."""
    lines = []
    for data, group in by_data(trials).items():
        size = group[0].result["alphabet"]
        ranks_found = [ranks["exhaustive"][1] for trial in group for ranks in trial.result["controls"].values()]
        mean = Measured.mean([rank for rank in ranks_found if rank is not None], size)
        low, high = (round(end) if end is not None else "?" for end in (mean.low, mean.high))
        lines.append(
            f"{data}: {mean.value:.0f} [{low}, {high}] n={mean.count}, by chance {(size + 1) / 2:.0f} of {size}"
        )
    return "Controls, never planted, rank by class loss on average: " + "; ".join(lines) + "."


# -- the tables ---------------------------------------------------------------------------------------------


def table_trials(plan: StudyPlan, *, repetitions: int) -> list[Config]:
    """List trials with this number of repetitions; at ``paper`` on both data sets of the paper."""
    grounds = (PAPER_YELP, PAPER) if plan.scale == "paper" else (PAPER,)
    return [config for ground in grounds for config in victims(plan, ground, repetitions=repetitions)]


def table_report(
    trials: Sequence[StudyTrial], plan: StudyPlan, *, published: Mapping[str, Mapping[str, Figures]]
) -> Report:
    """Report Top K and Beam size with the published ones.

    Args:
        trials: the trials.
        plan: scale and seeds.
        published: values by generator, for each target and data set.
    """
    rows: list[TableRow] = []
    claims: list[Claim] = []
    published_targets = corresponding_targets(published)
    for data, group in by_data(trials).items():
        names = list(group[0].result["ranks"])
        for name in names:
            target = published_targets.get(name, name)
            printed = published[target].get(data) or published[target][REDDIT]
            rows.append({"data": data, **canary_row(group, name, target, printed)})
        claims += generator_claims(group, names, data)
    others = "" if plan.scale == "paper" else " for Reddit, compared with canaries of their category"
    stars = f"Columns with * are published values{others}."
    return Report(list(rows[0]), rows, claims, [stars, *set_up(plan), categories(plan), control_line(trials)])


def corresponding_targets(targets: Iterable[str]) -> dict[str, str]:
    """Map each of our targets to the paper's target of its kind, by position in the tables."""
    return {ours.target: target for ours, target in zip(SMALL_TABLE, targets, strict=True)}


def canary_row(trials: Sequence[StudyTrial], name: str, target: str, printed: Figures) -> TableRow:
    """Return candidates needed and pruned rank by generator for a canary, with the ``printed`` ones of the paper."""
    row: TableRow = {"target": name if name == target else f"{name} ({target})"}
    for (generator, words), figures in zip(GENERATORS.items(), printed, strict=True):
        top = values(trials, generator, 0, name)
        row[f"{words} K*"] = Published(figures[0])
        row[f"{words} K"] = Measured.mean(top, _most(trials)) if generator == "frankenstein" else round(fmean(top))
        row[f"{words} beam*"] = Published(figures[1])
        row[f"{words} beam"] = from_zero(values(trials, generator, 1, name), trials[0].result["alphabet"])
    return row


def _most(trials: Sequence[StudyTrial]) -> float:
    """Return the last rank that a generator can give, as far as the config determines it."""
    ground = ClassifierExperiment(**trials[0].config["ground"])
    return math.inf if ground.base else ground.vocabulary


register_study = registrar("mix-and-match", "Elmahdy and Salem 2023", SCALES, run)
"""A function that registers a study of this paper."""

for _number, _repetitions in ((2, 5), (3, 25), (4, 100)):
    register_study(
        f"table-{_number}",
        f"fourteen canaries reconstructed with three generators, {_repetitions} repetitions",
        f"Table {_number}",
        partial(table_trials, repetitions=_repetitions),
        partial(table_report, published=TABLES[_repetitions]),
    )

"""Studies of the future work of Elmahdy, Inan and Sim (2022), section 8: popular classes, organic canaries, privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leakage_tasks.research.elmahdy.counts import SearchOutcome, leaks_more, register_study, report_of, select, success
from leakage_tasks.research.elmahdy.trials import SEEDS, main_victim, victim
from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Measured, Published, Report, TableRow

POSITIONS = {0.0: "rarest", 0.5: "middle", 1.0: "most popular"}
EPSILONS = (None, 100.0, 8.0)
COPIES = "25 repetitions, scaled to the size of the data."
GUESSES = (1, 10, 50, 100, 200)

RAREST = PaperClaim("the rarest class leaks most (expected in section 7)")


def _report(
    name: str, settings: Mapping[str, Sequence[StudyTrial]], words: str, plan: StudyPlan, *notes: str, or_as_much: bool
) -> Report:
    """Report success and accuracy by setting, and claim (``words``) that the first setting leaks more than the last."""
    rows: list[TableRow] = []
    for setting, group in settings.items():
        rates = {f"success@{k}": success(group, k, 0.0) for k in GUESSES}
        accuracy = Measured.mean([trial.result["accuracy"] for trial in group])
        rows.append({name: setting, "published": Published(None), **rates, "accuracy": accuracy})
    outcomes = [SearchOutcome.of(group, 100, 0.0) for group in settings.values()]
    claims = [leaks_more(outcomes[0], outcomes[-1], words, or_as_much=or_as_much)]
    trials = [trial for group in settings.values() for trial in group]
    size = trials[0].result["alphabet"]
    chance = f"Random guess of k from {size} values is accuracy {100 / size:.4f} of the time at k = 100."
    return report_of(rows, claims, trials, plan, chance, *notes)


def class_trials(plan: StudyPlan) -> list[Config]:
    """List trials with canaries in the rarest, middle and most popular classes."""
    seeds = plan.seeds(3 if plan.scale == "small" else SEEDS[plan.scale])
    return [victim(plan, seed, repetitions=25, first_class=position) for position in POSITIONS for seed in seeds]


def class_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report success by popularity of the canary's class."""
    by_position = {words: select(trials, first_class=position) for position, words in POSITIONS.items()}
    return _report("class", by_position, RAREST.test("no less than the largest"), plan, COPIES, or_as_much=True)


def organic_trials(plan: StudyPlan) -> list[Config]:
    """List trials with canaries of random words and of beginnings of real sentences."""
    seeds = plan.seeds(3 if plan.scale == "small" else SEEDS[plan.scale])
    return [victim(plan, seed, repetitions=25, organic=organic) for organic in (False, True) for seed in seeds]


def organic_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report success on random and organic canaries."""
    kinds = {words: select(trials, organic=organic) for organic, words in ((False, "random"), (True, "organic"))}
    words = "random canaries leak no less than organic canaries"
    note = "Organic canaries are the first ten words of held-out sentences; the tenth is unknown."
    return _report("canary", kinds, words, plan, COPIES, note, or_as_much=True)


def private_trials(plan: StudyPlan) -> list[Config]:
    """List trials with plain training and with DP-SGD at several ε."""
    epsilons = EPSILONS[:2] if plan.scale == "smoke" else EPSILONS
    seeds = plan.seeds(2 if plan.scale == "small" else SEEDS[plan.scale])
    private = [victim(plan, seed, epsilon=epsilon) for epsilon in epsilons[1:] for seed in seeds]
    return [*(main_victim(plan, seed) for seed in seeds), *private]


def private_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report success and accuracy by ε."""
    by_epsilon = {
        "none" if epsilon is None else f"{epsilon:g}": group
        for epsilon in EPSILONS
        if (group := select(trials, epsilon=epsilon))
    }
    note = "ε is for one row; all copies of a canary together have an ε larger by their number (group privacy)."
    return _report("ε", by_epsilon, "plain training leaks more than DP-SGD", plan, note, or_as_much=False)


register_study(
    "class-rank",
    "canaries in the rarest, middle and most popular classes",
    "future work (section 8)",
    class_trials,
    class_report,
)
register_study(
    "organic",
    "random canaries against organic ones",
    "future work (section 8)",
    organic_trials,
    organic_report,
)
register_study(
    "dp-sgd",
    "extraction and accuracy under DP-SGD",
    "future work (section 8)",
    private_trials,
    private_report,
)

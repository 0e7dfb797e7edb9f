"""What Elmahdy, Inan and Sim (2022), section 8, leave to future work: popular classes, organic canaries, privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leakage_tasks.research.elmahdy.counts import (
    SearchOutcome,
    accuracy,
    chosen,
    leaks_more,
    register_study,
    set_up,
    success,
)
from leakage_tasks.research.elmahdy.trials import SEEDS, main_victim, victim
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Measured, Published, Report, TableRow

PLACES = {0.0: "rarest", 0.5: "middle", 1.0: "most popular"}
EPSILONS = (None, 100.0, 8.0)
COPIES = "25 repetitions, or as many as stand for them here."
GUESSES = (1, 10, 50, 100, 200)


def _rows(name: str, settings: Mapping[str, Sequence[StudyTrial]]) -> list[TableRow]:
    rows: list[TableRow] = []
    for setting, own in settings.items():
        rates = {f"success@{k}": success(own, k, 0.0) for k in GUESSES}
        right = Measured.mean([trial.result["accuracy"] for trial in own])
        rows.append({name: setting, "published": Published(None), **rates, "accuracy": right})
    return rows


def _report(rows: list[TableRow], claims: Any, trials: Sequence[StudyTrial], plan: StudyPlan, *notes: str) -> Report:
    size = trials[0].result["alphabet"]
    chance = f"Random guess of k from {size} values is right {100 / size:.4f} of the time at k = 100."
    return Report(list(rows[0]), rows, claims, [*set_up(plan), chance, *notes, *accuracy(trials)])


def class_trials(plan: StudyPlan) -> list[Config]:
    """Canaries in the rarest, middling and most popular classes."""
    seeds = plan.seeds(3 if plan.scale == "small" else SEEDS[plan.scale])
    return [victim(plan, seed, repetitions=25, first_class=place) for place in PLACES for seed in seeds]


def class_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Success by how popular the canary's class is."""
    by_place = {words: chosen(trials, first_class=place) for place, words in PLACES.items()}
    rare, popular = (SearchOutcome.of(by_place[words], 100, 0.0) for words in ("rarest", "most popular"))
    words = "a canary in the rarest class leaks no less than in the largest"
    claims = [leaks_more(rare, popular, words, or_as_much=True)]
    return _report(_rows("class", by_place), claims, trials, plan, COPIES)


def organic_trials(plan: StudyPlan) -> list[Config]:
    """Random words against beginnings of real sentences."""
    seeds = plan.seeds(3 if plan.scale == "small" else SEEDS[plan.scale])
    return [victim(plan, seed, repetitions=25, organic=organic) for organic in (False, True) for seed in seeds]


def organic_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Success on random and organic canaries."""
    kinds = {words: chosen(trials, organic=organic) for organic, words in ((False, "random"), (True, "organic"))}
    random, organic = (SearchOutcome.of(kinds[words], 100, 0.0) for words in ("random", "organic"))
    claims = [leaks_more(random, organic, "random canaries leak no less than organic ones", or_as_much=True)]
    note = "Organic canaries are the first ten words of sentences kept back from training; the tenth is unknown."
    return _report(_rows("canary", kinds), claims, trials, plan, COPIES, note)


def private_trials(plan: StudyPlan) -> list[Config]:
    """Plain training and DP-SGD at several ε."""
    epsilons = EPSILONS[:2] if plan.scale == "smoke" else EPSILONS
    seeds = plan.seeds(2 if plan.scale == "small" else SEEDS[plan.scale])
    private = [victim(plan, seed, epsilon=epsilon) for epsilon in epsilons[1:] for seed in seeds]
    return [*(main_victim(plan, seed) for seed in seeds), *private]


def private_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Success and accuracy by ε."""
    by_epsilon = {
        "none" if epsilon is None else f"{epsilon:g}": own
        for epsilon in EPSILONS
        if (own := chosen(trials, epsilon=epsilon))
    }
    plain, private = (SearchOutcome.of(by_epsilon[name], 100, 0.0) for name in ("none", list(by_epsilon)[-1]))
    claims = [leaks_more(plain, private, "plain training leaks more than DP-SGD")]
    note = "ε is for one row; all copies of a canary together are promised that many times less (group privacy)."
    return _report(_rows("ε", by_epsilon), claims, trials, plan, note)


register_study(
    "class-rank",
    "canaries in the rarest, middling and most popular classes",
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

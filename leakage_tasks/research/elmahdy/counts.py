"""Counting trials of Elmahdy, Inan and Sim (2022), and the claims that rest on the counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from leakage_tasks.research.classifiers.experiment import ClassifierExperiment, at_scale, differences
from leakage_tasks.research.elmahdy.trials import CANARIES, PAPER, SCALES, SMALL, run
from leakage_tasks.research.framework.group_tests import no_difference
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial, registrar
from leakage_tasks.research.framework.report import Claim, Measured, Report, TableRow


def success(trials: Iterable[StudyTrial], k: int, penalty: float) -> Measured | None:
    """The share of canaries found within ``k`` guesses; None without trials."""
    return _share(_places(trials, penalty), k)


def control_success(trials: Iterable[StudyTrial], k: int) -> Measured | None:
    """The same of canaries that were never planted."""
    return _share([place for trial in trials for place in trial.result["controls"]], k)


def _places(trials: Iterable[StudyTrial], penalty: float) -> list[int | None]:
    return [place for trial in trials for place in trial.result["places"][str(penalty)]]


def _share(places: list[int | None], k: int) -> Measured | None:
    return Measured.rate(sum(place is not None and place <= k for place in places), len(places)) if places else None


def select(trials: Iterable[StudyTrial], **wanted: Any) -> list[StudyTrial]:
    """The trials whose config has these values."""
    return [trial for trial in trials if all(trial.config[name] == value for name, value in wanted.items())]


def with_copies(trials: Sequence[StudyTrial], **wanted: Any) -> list[StudyTrial]:
    """As :func:`select`, with numbers as the paper gives them."""
    ground = ClassifierExperiment(**trials[0].config["ground"])
    scaled = {name: ground.copies(value) if isinstance(value, int) else value for name, value in wanted.items()}
    return select(trials, **scaled)


def _set_up(plan: StudyPlan) -> list[str]:
    """How the studies differ from the paper's."""
    ground = at_scale(plan.scale, SMALL, PAPER)
    found = differences(ground, PAPER)
    if CANARIES[plan.scale] > 1:
        found.append(
            f"{CANARIES[plan.scale]} canaries are planted in each victim, one in each of the rarest classes, where the "
            "paper plants one; they are counted as independent."
        )
    return found


@dataclass(frozen=True)
class SearchOutcome:
    """One setting: its rate of success within ``k`` guesses, and the geometric mean of the secrets' places."""

    rate: Measured
    place: float | None
    places: Sequence[float]
    """All of them, infinite where there is none."""

    @staticmethod
    def of(trials: Sequence[StudyTrial], k: int, penalty: float) -> SearchOutcome | None:
        """The outcome of trials; no mean place where some secret has none. None without trials."""
        places = _places(trials, penalty)
        rate = _share(places, k)
        known = [math.log(place) for place in places if place is not None]
        mean = math.exp(fmean(known)) if known and len(known) == len(places) else None
        every = [math.inf if place is None else place for place in places]
        return None if rate is None else SearchOutcome(rate, mean, every)

    def __str__(self) -> str:
        low, high = ("?" if end is None else f"{end:.2f}" for end in (self.rate.low, self.rate.high))
        shown = "" if self.place is None else f", mean place {self.place:.1f}"
        return f"{self.rate.value:.2f} [{low}, {high}] n={self.rate.count}{shown}"


def leaks_more(
    one: SearchOutcome | None, other: SearchOutcome | None, words: str, *, or_as_much: bool = False
) -> Claim:
    """The claim that one setting leaks more than another (or no less): by success, where that is equal by place.

    Places are compared as geometric means; as much is within a tenth of each other. p is Fisher's for success, Mann and
    Whitney's for places; that one leaks no less has none, for no test can show it.
    """
    if one is None or other is None:
        return Claim(words, None, "not measured")
    evidence = f"{one} against {other}"
    if one.rate.value != other.rate.value:
        holds = one.rate.value > other.rate.value
        return Claim(words, holds, evidence, None if or_as_much and holds else _success_p(one.rate, other.rate))
    if one.place is None or other.place is None:
        return Claim(words, True if or_as_much else None, evidence)
    holds = one.place < other.place * (1.1 if or_as_much else 1.0)
    return Claim(words, holds, evidence, None if or_as_much and holds else _place_p(one.places, other.places))


def leak_alike(outcomes: Mapping[int, SearchOutcome | None], words: str) -> Claim:
    """The claim that settings, each with its number, leak alike: the secrets' places do not differ significantly."""
    known = {number: found for number, found in outcomes.items() if found is not None}
    shown = "; ".join(f"{number}: {found}" for number, found in known.items())
    return no_difference(words, [found.places for found in known.values()], shown)


def _success_p(one: Measured, other: Measured) -> float:
    from scipy import stats

    hits = [(round(each.value * each.count), each.count) for each in (one, other)]
    return float(stats.fisher_exact([[found, count - found] for found, count in hits]).pvalue)


def _place_p(one: Sequence[float], other: Sequence[float]) -> float:
    from scipy import stats

    return float(stats.mannwhitneyu(one, other).pvalue)


def against_guess(rate: Measured | None, guess: float, words: str, *, at_chance: bool = False) -> Claim:
    """The claim that a rate's whole interval is above random guess, or that it holds it.

    The first has the binomial test's p, twice the upper tail, as the interval is Clopper and Pearson's.
    """
    from scipy import stats

    if rate is None or rate.low is None or rate.high is None:
        return Claim(words, None, "not measured")
    holds, beside = (rate.low <= guess <= rate.high, "around") if at_chance else (rate.low > guess, "against")
    hits = round(rate.value * rate.count)
    p = None if at_chance else min(1.0, 2 * stats.binomtest(hits, rate.count, guess, alternative="greater").pvalue)
    return Claim(words, holds, f"{rate.value:.2f} [{rate.low:.2f}, {rate.high:.2f}] {beside} {guess:.4f}", p)


def report_of(
    rows: Sequence[TableRow], claims: Sequence[Claim], trials: Sequence[StudyTrial], plan: StudyPlan, *notes: str
) -> Report:
    """A study's table and claims, with how it differs from the paper's and what the victims get right."""
    right, seen = (
        Measured.mean([trial.result[name] for trial in trials]).value for name in ("accuracy", "training_accuracy")
    )
    accuracy = (
        f"The victims get {100 * seen:.1f} % of training and {100 * right:.1f} % of validation rows right "
        "(published 47.69 and 42.94)."
    )
    return Report(list(rows[0]), rows, claims, [*_set_up(plan), *notes, accuracy])


register_study = registrar("elmahdy", "Elmahdy, Inan and Sim 2022", SCALES, run)
"""Registers studies of this paper."""

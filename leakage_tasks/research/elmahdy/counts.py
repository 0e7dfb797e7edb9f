"""Rates and ranks of trials of Elmahdy, Inan and Sim (2022), and claims about them."""

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
    """Return the share of canaries found within ``k`` guesses, or None without trials."""
    return _share(_places(trials, penalty), k)


def control_success(trials: Iterable[StudyTrial], k: int) -> Measured | None:
    """Return the share of controls, canaries that were never planted, found within ``k`` guesses."""
    return _share([rank for trial in trials for rank in trial.result["controls"]], k)


def _places(trials: Iterable[StudyTrial], penalty: float) -> list[int | None]:
    return [rank for trial in trials for rank in trial.result["places"][str(penalty)]]


def _share(ranks: list[int | None], k: int) -> Measured | None:
    return Measured.rate(sum(rank is not None and rank <= k for rank in ranks), len(ranks)) if ranks else None


def select(trials: Iterable[StudyTrial], **wanted: Any) -> list[StudyTrial]:
    """Return the trials whose config has these values."""
    return [trial for trial in trials if all(trial.config[name] == value for name, value in wanted.items())]


def with_copies(trials: Sequence[StudyTrial], **wanted: Any) -> list[StudyTrial]:
    """Return the trials as :func:`select` does, with repetitions as the paper counts them."""
    ground = ClassifierExperiment(**trials[0].config["ground"])
    scaled = {name: ground.copies(value) if isinstance(value, int) else value for name, value in wanted.items()}
    return select(trials, **scaled)


def _set_up(plan: StudyPlan) -> list[str]:
    """List the differences from the paper's set-up."""
    ground = at_scale(plan.scale, SMALL, PAPER)
    sentences = differences(ground, PAPER)
    if CANARIES[plan.scale] > 1:
        sentences.append(
            f"{CANARIES[plan.scale]} canaries are planted in each victim, one in each of the rarest classes; the "
            "paper plants one. They are treated as independent."
        )
    return sentences


@dataclass(frozen=True)
class SearchOutcome:
    """Results of one setting: success within ``k`` guesses, and the geometric mean of the secrets' ranks."""

    rate: Measured
    place: float | None
    places: Sequence[float]
    """All ranks, infinite for a secret that was not found."""

    @staticmethod
    def of(trials: Sequence[StudyTrial], k: int, penalty: float) -> SearchOutcome | None:
        """Return the outcome of trials, or None without trials. The mean rank is None if a secret was not found."""
        ranks_or_none = _places(trials, penalty)
        rate = _share(ranks_or_none, k)
        known = [math.log(rank) for rank in ranks_or_none if rank is not None]
        mean = math.exp(fmean(known)) if known and len(known) == len(ranks_or_none) else None
        ranks = [math.inf if rank is None else rank for rank in ranks_or_none]
        return None if rate is None else SearchOutcome(rate, mean, ranks)

    def __str__(self) -> str:
        low, high = ("?" if end is None else f"{end:.2f}" for end in (self.rate.low, self.rate.high))
        shown = "" if self.place is None else f", mean rank {self.place:.1f}"
        return f"{self.rate.value:.2f} [{low}, {high}] n={self.rate.count}{shown}"


def leaks_more(
    one: SearchOutcome | None, other: SearchOutcome | None, words: str, *, or_as_much: bool = False
) -> Claim:
    """Return the claim that one setting leaks more than another, or no less: by success, and by rank if success is
    equal.

    Ranks are compared by geometric means, which count as equal within 10 %. p is from Fisher's test for success and the
    Mann-Whitney test for ranks. A claim of "no less" has no p because no test can show it.
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
    """Return the claim that settings leak equally: the secrets' ranks do not differ significantly."""
    known = {number: setting for number, setting in outcomes.items() if setting is not None}
    shown = "; ".join(f"{number}: {setting}" for number, setting in known.items())
    return no_difference(words, [setting.places for setting in known.values()], shown)


def _success_p(one: Measured, other: Measured) -> float:
    from scipy import stats

    hits = [(round(rate.value * rate.count), rate.count) for rate in (one, other)]
    return float(stats.fisher_exact([[hit, count - hit] for hit, count in hits]).pvalue)


def _place_p(one: Sequence[float], other: Sequence[float]) -> float:
    from scipy import stats

    return float(stats.mannwhitneyu(one, other).pvalue)


def against_guess(rate: Measured | None, guess: float, words: str, *, at_chance: bool = False) -> Claim:
    """Return the claim that a rate's interval is above a random guess or, with ``at_chance``, that it contains the
    random guess.

    The first claim has p of the binomial test, twice the upper tail, in line with the Clopper-Pearson interval.
    """
    from scipy import stats

    if rate is None or rate.low is None or rate.high is None:
        return Claim(words, None, "not measured")
    holds, relation = (rate.low <= guess <= rate.high, "around") if at_chance else (rate.low > guess, "against")
    hits = round(rate.value * rate.count)
    p = None if at_chance else min(1.0, 2 * stats.binomtest(hits, rate.count, guess, alternative="greater").pvalue)
    return Claim(words, holds, f"{rate.value:.2f} [{rate.low:.2f}, {rate.high:.2f}] {relation} {guess:.4f}", p)


def report_of(
    rows: Sequence[TableRow], claims: Sequence[Claim], trials: Sequence[StudyTrial], plan: StudyPlan, *notes: str
) -> Report:
    """Return the report of a study, with differences from the paper and the victims' accuracy."""
    validation, training = (
        Measured.mean([trial.result[name] for trial in trials]).value for name in ("accuracy", "training_accuracy")
    )
    accuracy = (
        f"The victims' accuracy is {100 * training:.1f} % on training and {100 * validation:.1f} % on validation rows "
        "(published 47.69 and 42.94)."
    )
    return Report(list(rows[0]), rows, claims, [*_set_up(plan), *notes, accuracy])


register_study = registrar("elmahdy", "Elmahdy, Inan and Sim 2022", SCALES, run)
"""A function that registers a study of this paper."""

"""A figure of a results file with what it may not be shown without: its interval, its count, its controls' value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy import stats

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.metrics.verdict import Verdict, verdict_of
from leakage_tasks.report.load.results import TaskResult
from leakage_tasks.stats.intervals import LEVEL, clopper_pearson

NO_HEADLINE = "no-headline"
"""How ``leakage check --allow`` calls flags of tasks none of whose figures stands for the model."""


@dataclass(frozen=True)
class Figure:
    """A value with all that it may not be shown without, as far as that is known."""

    value: float | None
    """None where the task has none."""
    low: float | None = None
    """The lower end of the 95 % interval."""
    high: float | None = None
    """The upper end."""
    kind: str = ""
    """How the interval was got."""
    control: float | None = None
    """The value of the controls."""
    count: int | None = None
    """The number of documents it rests on."""
    learnt: tuple[int, int] | None = None
    """Of the copies of its canaries, how many had their secret in the loss of training, and how many were planted."""


@dataclass(frozen=True)
class Flag:
    """Why a task's figures may not be read as they stand: the value of a row, or what the whole task is for."""

    task: str
    """The task it is about."""
    row: str
    """The row that raises it; empty for what the whole task is for."""
    value: float | None
    """That row's."""
    words: str
    """The reason."""
    fault: bool = False
    """The figures mean nothing."""
    low: bool = False
    """The figures may be too low where less is better."""
    no_headline: bool = False
    """None of the figures stands for the model."""
    waiver: str = ""
    """What ``leakage check --allow`` calls it."""

    @property
    def unranked(self) -> bool:
        """Whether the figures may neither be ranked nor published on their own."""
        return self.fault or self.no_headline


def figure(result: TaskResult, metric: str, column: str = HEADLINE) -> Figure:
    """One value of a task's results with all that belongs to it."""
    values = result.values.get(column, {})
    value, row = values.get(metric), result.rows.get(metric)
    if row is None:
        return Figure(value, *_harness_interval(result, metric, column), count=result.samples)
    ends = (None, None) if row.interval is None else (values.get(row.interval[0]), values.get(row.interval[1]))
    counted = None if row.count is None else values.get(row.count, result.headline.get(row.count))
    told = result.tested.get("learnt_from") if row.direction is not None and result.is_leakage else None
    return Figure(
        value,
        *ends,
        kind=row.interval_kind,
        control=None if row.control is None else values.get(row.control),
        count=None if counted is None else int(counted),
        learnt=learnt_from(told, row.copies),
    )


def learnt_from(told: Any, copies: int | None = None) -> tuple[int, int] | None:
    """Of canaries planted ``copies`` times, or of all, how many copies were in the loss, and how many there are.

    ``told`` is what a task declares as ``tested["learnt_from"]``; None where it tells nothing, or not like that: others
    may have written it.
    """
    try:
        chosen = [(int(each[0]), int(each[1])) for times, each in told.items() if copies in (None, int(times))]
    except (AttributeError, LookupError, TypeError, ValueError):
        return None
    found = (sum(learnt for learnt, _ in chosen), sum(planted for _, planted in chosen))
    return found if chosen and 0 <= found[0] <= found[1] else None


def headline_of(result: TaskResult, metric: str) -> str:
    """The row of the canaries planted the fewest times that is part of ``metric``; that itself where none is."""
    tiers = [row for row in result.rows.values() if row.parent == metric and row.copies and row.name in result.headline]
    return min(tiers, key=lambda row: row.copies or 0).name if tiers else metric


def counted_words(result: TaskResult, metric: str) -> str:
    """What the documents are that a figure rests on."""
    row = result.rows.get(metric)
    counted = None if row is None or row.count is None else result.rows.get(row.count)
    return counted.description if counted else "documents"


def flags(result: TaskResult) -> list[Flag]:
    """Why a task has no headline, and the alarms that the headline column of its results raises."""
    raised: list[Flag] = []
    if result.predicted_only:
        raised.append(Flag(result.task, "", None, _unscored(result), no_headline=result.is_leakage, waiver=NO_HEADLINE))
    if result.no_headline:
        words = f"no headline: {result.no_headline}"
        raised.append(Flag(result.task, "", None, words, no_headline=True, waiver=NO_HEADLINE))
    for name, row in result.rows.items():
        value, check = result.headline.get(name), row.check
        if value is not None and check is not None and value < check.below:
            raised.append(Flag(result.task, name, value, check.words, check.fault, check.low, waiver=check.name))
    return raised


def _unscored(result: TaskResult) -> str:
    """Return why a run under ``--predict_only`` has no figure of a task, and the remedy."""
    remedy = "'leakage score' scores its samples" if result.is_leakage else "run it again without"
    return f"not scored: the run had --predict_only; {remedy}"


def verdict_on(result: TaskResult) -> Verdict | None:
    """The verdict on a task's headline column; None without headline, and for figures that chance says nothing of."""
    declared = result.declared
    if declared is None or not result.is_leakage or declared.no_headline or result.no_headline:
        return None
    return verdict_of(result.headline, declared.tested)


def _harness_interval(result: TaskResult, metric: str, column: str) -> tuple[float | None, float | None, str]:
    """The 95 % interval of a harness task's figure, from its standard error.

    A share of right answers, which its standard error of √(p(1−p)/(n−1)) tells, has the Clopper-Pearson one.
    """
    value, error = result.values.get(column, {}).get(metric), result.errors.get(column, {}).get(metric)
    if value is None or error is None:
        return None, None, ""
    count = result.samples or 0
    usual = math.sqrt(value * (1 - value) / (count - 1)) if count > 1 and 0 <= value <= 1 else math.inf
    if math.isclose(error, usual, abs_tol=1e-9):
        return *clopper_pearson(round(value * count), count), "Clopper-Pearson"
    reach = float(stats.norm.ppf((1 + LEVEL) / 2)) * error
    ends = value - reach, value + reach
    return (*ends, "normal, from the standard error") if all(map(math.isfinite, ends)) else (None, None, "")

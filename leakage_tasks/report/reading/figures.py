"""A figure of a results file with what it may not be shown without: its interval, its count, its controls' value."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import stats

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.metrics.metric import MetricSpec
from leakage_tasks.metrics.verdict import Verdict, verdict_of
from leakage_tasks.report.reading.results import TaskResult
from leakage_tasks.stats.intervals import LEVEL, clopper_pearson


@dataclass(frozen=True)
class Figure:
    """A value with its 95 % interval, its controls' value and the number of documents it rests on, as far as known.

    ``kind`` says how the interval was got.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    kind: str = ""
    control: float | None = None
    count: int | None = None


@dataclass(frozen=True)
class Flag:
    """Why a task's figures may not be read as they stand: the value of a row, or what the whole task is for.

    With ``fault`` they mean nothing, with ``low`` they may be too low where less is better, with ``no_headline`` none
    of them stands for the model. ``waiver`` is what ``leakage check --allow`` calls it.
    """

    task: str
    row: str
    value: float | None
    words: str
    fault: bool = False
    low: bool = False
    no_headline: bool = False
    waiver: str = ""

    @property
    def unranked(self) -> bool:
        """Whether the figures may neither be ranked nor published on their own."""
        return self.fault or self.no_headline


def figure(result: TaskResult, metric: str, column: str = HEADLINE) -> Figure:
    """One value of a task's results with all that belongs to it."""
    values = result.values.get(column, {})
    value, row = values.get(metric), row_of(result, metric)
    if row is None:
        low, high, kind = _harness_interval(result, metric, column)
        return Figure(value, low, high, kind, count=result.samples)
    ends = (None, None) if row.interval is None else (values.get(row.interval[0]), values.get(row.interval[1]))
    counted = None if row.count is None else values.get(row.count, result.values.get(HEADLINE, {}).get(row.count))
    return Figure(
        value,
        *ends,
        kind=row.interval_kind,
        control=None if row.control is None else values.get(row.control),
        count=None if counted is None else int(counted),
    )


def headline_of(result: TaskResult, metric: str) -> str:
    """The row of the canaries planted the fewest times that is part of ``metric``; that itself where none is."""
    rows = {} if result.declared is None else result.declared.rows
    there = result.values.get(HEADLINE, {})
    tiers = [row for name, row in rows.items() if row.of == metric and row.copies is not None and name in there]
    return min(tiers, key=lambda row: row.copies or 0).name if tiers else metric


def row_of(result: TaskResult, metric: str) -> MetricSpec | None:
    """What the metric declared about itself; None where it did not."""
    return None if result.declared is None else result.declared.rows.get(metric)


def flags(result: TaskResult) -> list[Flag]:
    """Why a task has no headline, and the alarms that the headline column of its results raises."""
    rows = {} if result.declared is None else result.declared.rows
    values = result.values.get(HEADLINE, {})
    raised: list[Flag] = []
    if result.declared is not None and result.declared.no_headline and result.answered:
        words = f"no headline: {result.declared.no_headline}"
        raised.append(Flag(result.task, "", None, words, no_headline=True, waiver="no-headline"))
    for name, row in rows.items():
        value, alarm = values.get(name), row.alarm
        if value is not None and alarm is not None and value < alarm.below:
            raised.append(Flag(result.task, name, value, alarm.words, alarm.fault, alarm.low, waiver=alarm.name))
    return raised


def verdict_on(result: TaskResult) -> Verdict | None:
    """The verdict on a task's headline column; None without headline, and for figures that chance says nothing of."""
    declared = result.declared
    if declared is None or not result.is_leakage or declared.no_headline:
        return None
    return verdict_of(result.values.get(HEADLINE, {}), declared.tested)


def _harness_interval(result: TaskResult, metric: str, column: str) -> tuple[float | None, float | None, str]:
    """The 95 % interval of a harness task's figure, from its standard error.

    A share of right answers, which its standard error of √(p(1−p)/(n−1)) tells, has the Clopper-Pearson one.
    """
    value, error = result.values.get(column, {}).get(metric), result.errors.get(column, {}).get(metric)
    if value is None or error is None:
        return None, None, ""
    count = result.samples or 0
    if (
        count > 1
        and 0 <= value <= 1
        and math.isclose(error, math.sqrt(value * (1 - value) / (count - 1)), abs_tol=1e-9)
    ):
        return *clopper_pearson(round(value * count), count), "Clopper-Pearson"
    reach = float(stats.norm.ppf((1 + LEVEL) / 2)) * error
    if not math.isfinite(value - reach) or not math.isfinite(value + reach):
        return None, None, ""
    return value - reach, value + reach, "normal, from the standard error"

"""A value of a results file with its context: interval, number of documents, and value of the controls."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scipy import stats

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.metrics.conclusion import Verdict
from leakage_tasks.metrics.verdict import verdict_of
from leakage_tasks.report.load.results import TaskResult
from leakage_tasks.stats.intervals import LEVEL, clopper_pearson

NO_PRIMARY = "no-primary-metric"
"""Name in ``leakage check --allow`` for tasks without a primary metric."""
BLIND = "blind_auc"
"""The row that is the control of attacks on membership."""


@dataclass(frozen=True)
class Figure:
    """A value and its context, as far as known."""

    value: float | None
    """The value, or None if the task has no value."""
    low: float | None = None
    """The lower end of the 95 % interval."""
    high: float | None = None
    """The upper end."""
    kind: str = ""
    """The method that computed the interval."""
    control: float | None = None
    """The value of the controls."""
    count: int | None = None
    """The number of documents behind the value."""
    learnt: tuple[int, int] | None = None
    """Copies whose secret contributed to the training loss, and all copies planted."""


@dataclass(frozen=True)
class Flag:
    """A reason why a task's values may be wrong or misleading. It comes from one metric, or concerns the whole task."""

    task: str
    """The task's name."""
    row: str
    """The metric that raises the flag; empty for a flag of the whole task."""
    value: float | None
    """The value of that metric."""
    words: str
    """The reason in words."""
    fault: bool = False
    """True if the values are not valid."""
    low: bool = False
    """True if the values may be too low, on metrics for which lower is better."""
    no_headline: bool = False
    """True if the task has no primary metric."""
    waiver: str = ""
    """The name that ``leakage check --allow`` accepts."""
    below: float | None = None
    """The limit below which the value raises the flag."""

    @property
    def unranked(self) -> bool:
        """True if the values may be neither ranked nor published on their own."""
        return self.fault or self.no_headline


def figure(result: TaskResult, metric: str, column: str = HEADLINE) -> Figure:
    """Return one value of a task's results with its context."""
    values = result.values.get(column, {})
    value, row = values.get(metric), result.rows.get(metric)
    if row is None:
        return Figure(value, *_harness_interval(result, metric, column), count=result.samples)
    ends = (None, None) if row.interval is None else (values.get(row.interval[0]), values.get(row.interval[1]))
    counted = None if row.count is None else values.get(row.count, result.headline.get(row.count))
    copies = result.tested.get("learnt_from") if row.direction is not None and result.is_leakage else None
    return Figure(
        value,
        *ends,
        kind=row.interval_kind,
        control=None if row.control is None else values.get(row.control),
        count=None if counted is None else int(counted),
        learnt=learnt_from(copies, row.copies),
    )


def learnt_from(declared: Any, copies: int | None = None) -> tuple[int, int] | None:
    """Return how many copies contributed to the training loss, and how many were planted.

    Args:
        declared: A task's ``tested["learnt_from"]``: by number of copies, a pair of both numbers.
        copies: Count only canaries planted this many times; None counts all.

    Returns:
        Both numbers, or None if the declaration lacks them or has another form, as another program may write it.
    """
    try:
        chosen = [(int(pair[0]), int(pair[1])) for times, pair in declared.items() if copies in (None, int(times))]
    except (AttributeError, LookupError, TypeError, ValueError):
        return None
    total = (sum(learnt for learnt, _ in chosen), sum(planted for _, planted in chosen))
    return total if chosen and 0 <= total[0] <= total[1] else None


def headline_of(result: TaskResult, metric: str) -> str:
    """Return the part of ``metric`` for the lowest number of copies, or ``metric`` itself if it has no parts."""
    tiers = [row for row in result.rows.values() if row.parent == metric and row.copies and row.name in result.headline]
    return min(tiers, key=lambda row: row.copies or 0).name if tiers else metric


def control_words(controls: Iterable[str | None], meaning: str = "") -> str:
    """Return a sentence on each kind of control among the names of rows, with the ``meaning`` of a deviation."""
    names = {name for name in controls if name is not None}
    sentences = [f"Controls were never shown to the model{meaning}."] if names - {BLIND} else []
    if BLIND in names:
        sentences.append("The control of an attack on membership is the best blind baseline, which does not use it.")
    return " ".join(sentences)


def counted_words(result: TaskResult, metric: str) -> str:
    """Return a description of the documents behind a value."""
    row = result.rows.get(metric)
    counted = None if row is None or row.count is None else result.rows.get(row.count)
    planted = result.rows.get("n_planted")
    if counted and planted and counted.name in (f"n_{metric}", "n_extracted"):
        # If all canaries have a value, the condition would only raise questions.
        counted = planted if result.headline.get(counted.name) == result.headline.get(planted.name) else counted
    return counted.description if counted else "documents"


def flags(result: TaskResult) -> list[Flag]:
    """Return the reasons why a task has no primary metric, and the failed checks of its main column
    (:data:`HEADLINE`)."""
    raised: list[Flag] = []
    if result.predicted_only:
        raised.append(Flag(result.task, "", None, _unscored(result), no_headline=result.is_leakage, waiver=NO_PRIMARY))
    if result.no_headline:
        words = f"no primary metric: {result.no_headline}"
        raised.append(Flag(result.task, "", None, words, no_headline=True, waiver=NO_PRIMARY))
    for name, row in result.rows.items():
        value, check = result.headline.get(name), row.check
        if value is not None and check is not None and value < check.below:
            reason = check.words, check.fault, check.low
            raised.append(Flag(result.task, name, value, *reason, waiver=check.name, below=check.below))
    return raised


def _unscored(result: TaskResult) -> str:
    """Return the reason why a run under ``--predict_only`` has no values of a task, with the remedy."""
    remedy = "'leakage score' scores its samples" if result.is_leakage else "run it again without"
    return f"not scored: the run had --predict_only; {remedy}"


def verdict_on(result: TaskResult) -> Verdict | None:
    """Return the verdict on a task, or None without a primary metric or a test against chance."""
    declared = result.declared
    if declared is None or not result.is_leakage or declared.no_headline or result.no_headline:
        return None
    return verdict_of(result.headline, declared.tested)


def _harness_interval(result: TaskResult, metric: str, column: str) -> tuple[float | None, float | None, str]:
    """Return the 95 % interval of a harness task's value, computed from its standard error, with its method.

    If the standard error is √(p(1−p)/(n−1)), the value is a share of right answers and gets a Clopper-Pearson interval.
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

"""Limits on leakage for continuous integration: comparison of each run's values with their limits."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.core.errors import OptionError, ResultsError
from leakage_tasks.core.former_names import current_metric
from leakage_tasks.core.option import nearest
from leakage_tasks.report.load.figures import NO_PRIMARY, Figure, Flag, figure, flags, headline_of
from leakage_tasks.report.load.format import flag_words, number
from leakage_tasks.report.load.results import Run, TaskResult
from leakage_tasks.report.load.validate import printable

CLAIMED = "planting-claimed"
CLAIMED_WORDS = "planting claimed by the manifest, not proven by data: give the task planted=FILE"
DIFFERENT_TEXTS, SHARE_CONTROLS = "texts-differ", "share-controls"
WAIVERS = (
    *("underpowered", "no-controls", "controls-off-chance", "lower-bound", "extrapolated"),
    *(DIFFERENT_TEXTS, SHARE_CONTROLS, NO_PRIMARY, CLAIMED),
)
"""Names that ``--allow`` accepts, each for a condition that otherwise fails the check."""


@dataclass(frozen=True)
class Limit:
    """The worst value that is accepted.

    ``name`` is ``metric`` (of every leakage task), ``task/metric``, or ``task/metric/filter`` with a filter of the
    harness.
    """

    name: str
    value: float


@dataclass(frozen=True)
class LimitOutcome:
    """The outcome for one value of one run: ``passed`` if it respects its limit, and a sentence in ``words``."""

    passed: bool
    words: str


def outcomes(
    runs: Sequence[Run], limits: Sequence[Limit], *, point_estimate: bool = False, allowed: Collection[str] = ()
) -> list[LimitOutcome]:
    """Check every limit on every run. A task with invalid values also adds an outcome.

    Args:
        runs: The runs to check.
        limits: The limits.
        point_estimate: Compare the value itself with its limit, not the worse end of its 95 % interval.
        allowed: Names of waived conditions (:data:`WAIVERS`).

    Returns:
        One outcome per limited value, and one per condition that is not waived.

    Raises:
        ResultsError: If a run lacks a limited value.
        OptionError: If a limited metric has no better direction.
    """
    return [
        outcome
        for run in runs
        for outcome in (*_check_warnings(run, limits, allowed), *_check_limits(run, limits, point_estimate, allowed))
    ]


def waived(runs: Sequence[Run], allowed: Collection[str]) -> Iterator[str]:
    """Yield a note on each condition that would have failed the check without its waiver."""
    for run in runs:
        for task, result in sorted(run.tasks.items()):
            for flag in _flags(result):
                if flag.waiver in allowed:
                    yield f"{run.name}: {task}: waived: {flag.words}"


def headline_name(metric: str) -> str:
    """Return the name in a limit for a metric's value at the lowest number of copies."""
    return f"headline {metric}"


def limit_from(text: str) -> Limit:
    """Parse ``metric=value``, ``task/metric=value`` or ``task/metric/filter=value``. Raises OptionError."""
    name, _, value = text.rpartition("=")
    worst = math.nan
    with suppress(ValueError):
        worst = float(value)
    if not name.strip() or not math.isfinite(worst):
        raise OptionError(
            f"--limit {text!r}: expected metric=number, task/metric=number or task/metric/filter=number, as in --limit "
            "recall=0.01"
        )
    return Limit("/".join(map(current_metric, name.strip().split("/"))), worst)


def _check_warnings(run: Run, limits: Sequence[Limit], allowed: Collection[str]) -> Iterator[LimitOutcome]:
    """Yield faults and missing primary metrics of all tasks, and the other flags of tasks with a limit."""
    names = {limit.name for limit in limits}
    limited = {figure.result.task for figure in _figures(run) if names.intersection(figure.names)}
    failed: dict[str, list[Flag]] = {}
    for task, result in sorted(run.tasks.items()):
        for flag in _flags(result):
            # A flag for values that may be too low is reported with the value.
            if flag.waiver not in allowed and (flag.unranked or task in limited and not flag.low):
                failed.setdefault(flag.waiver, []).append(flag)
    for waiver, raised in failed.items():
        for words in flag_words(raised):
            yield LimitOutcome(False, f"{run.name}: {words}; --allow {waiver} waives it")


def _flags(result: TaskResult) -> list[Flag]:
    """Return a task's flags, plus a flag if only the manifest states that its canaries were planted.

    If all canaries were planted equally often, the flag on their number is omitted beside the flag on the primary
    metric's number, which is equal.
    """
    raised = flags(result)
    primary = {flag.value for flag in raised if flag.row.startswith("n_x")}
    raised = [flag for flag in raised if flag.row != "n_planted" or flag.value not in primary]
    if result.claimed:
        raised.append(Flag(result.task, "", None, CLAIMED_WORDS, waiver=CLAIMED))
    return raised


def _check_limits(run: Run, limits: Sequence[Limit], point: bool, allowed: Collection[str]) -> Iterator[LimitOutcome]:
    for limit in limits:
        limited = [figure for figure in _figures(run) if limit.name in figure.names]
        known = [value for value in limited if value.figure.value is not None]
        if not known:
            why, remedy = _missing(run, limit, bool(limited))
            raise ResultsError(
                f"{run.files[-1]}: {printable(limit.name)} {why}, so its limit cannot be checked: {remedy}, or remove "
                "the limit"
            )
        for value in known:
            yield _judge(run, limit, value, point, allowed)


@dataclass(frozen=True)
class _LimitedValue:
    """A value of a run with the names that a limit may use for it, the most specific last."""

    result: TaskResult
    metric: str
    figure: Figure
    names: tuple[str, ...]


def _figures(run: Run) -> Iterator[_LimitedValue]:
    for task, result in sorted(run.tasks.items()):
        for column, values in result.values.items():
            for metric in values:
                names = [f"{task}/{metric}/{column}"]
                if column == HEADLINE:
                    short_names = [metric] if result.is_leakage else []
                    names = [*_headline_names(result, metric), *short_names, *names, f"{task}/{metric}"]
                yield _LimitedValue(result, metric, figure(result, metric, column), tuple(names))


def _headline_names(result: TaskResult, metric: str) -> list[str]:
    """Return the limit's name for a metric that is the primary one: of the lowest number of copies, or of all."""
    row = result.rows.get(metric)
    parent = "" if row is None else row.parent or metric
    return [headline_name(parent)] if parent and headline_of(result, parent) == metric else []


def _missing(run: Run, limit: Limit, listed: bool) -> tuple[str, str]:
    """Return the reason why a value cannot be limited, and the remedy."""
    remedy = "run the task that measures it"
    if listed:
        return "has no value", remedy
    predicted_only = [task for task, result in sorted(run.tasks.items()) if result.predicted_only]
    if predicted_only:
        why = f"is not in it, as {', '.join(predicted_only)} ran under --predict_only and nothing was scored"
        return why, "run lm_eval again without --predict_only"
    filtered = [figure.names[-1] for figure in _figures(run) if figure.names[-1].startswith(f"{limit.name}/")]
    if filtered:
        return f"is in it under filters only ({', '.join(filtered)})", remedy
    similar = nearest(limit.name, {name for figure in _figures(run) for name in figure.names}, 0.75)
    return "is not in it", remedy if similar is None else f"use {similar} if you mean it"


def _judge(run: Run, limit: Limit, limited: _LimitedValue, point: bool, allowed: Collection[str]) -> LimitOutcome:
    better, limited_figure = _better(limited.result, limited.metric), limited.figure
    end = None if point else limited_figure.high if better == "lower" else limited_figure.low
    value = limited_figure.value if end is None else end
    assert value is not None
    within = value <= limit.value if better == "lower" else value >= limit.value
    sign = ("≤" if within else ">") if better == "lower" else ("≥" if within else "<")
    text, worst = _distinguishable(value, limit.value)
    by = "point estimate" if point else "has no interval"
    by = by if end is None else f"worse end of the 95 % interval of {number(limited_figure.value)}"
    words = f"{run.name}: {limited.names[-1]} {text} {sign} {worst} ({by})"
    low = next((flag for flag in flags(limited.result) if flag.low and flag.waiver not in allowed), None)
    if within and better == "lower" and low is not None:
        return LimitOutcome(False, f"{words}, which may be too low: {low.words}; --allow {low.waiver} waives it")
    return LimitOutcome(within, words)


def _distinguishable(one: float, other: float) -> tuple[str, str]:
    """Format two numbers with enough digits to show that they differ."""
    texts = number(one), number(other)
    digits = 4
    while one != other and texts[0] == texts[1]:
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        digits += 1
    return texts


def _better(result: TaskResult, metric: str) -> str:
    row = result.rows.get(metric)
    better = result.better(metric) if row is None else row.direction
    if better is None:
        raise OptionError(
            f"{result.task}/{metric}: has no better direction, so it cannot be limited: limit another metric"
        )
    return better


def exceeded_by_chance(bits: float, count: int) -> float:
    """Return the probability that any of ``count`` secrets unknown to the model exceeds ``bits`` of exposure.

    Each secret does with probability 2^−bits (The Secret Sharer, Definition 4), or less if it has few fillings.
    """
    share: float = 2.0 ** -max(bits, 0.0)
    return 1 - (1 - share) ** count

"""Limits on leakage, for continuous integration: which figures of which runs keep to them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.core.errors import OptionError, ResultsError
from leakage_tasks.core.former_names import current_metric
from leakage_tasks.report.load.figures import Figure, Flag, figure, flags, headline_of
from leakage_tasks.report.load.format import measure, number
from leakage_tasks.report.load.results import Run, TaskResult
from leakage_tasks.report.load.validate import printable

CLAIMED = "planting-claimed"
WAIVERS = ("underpowered", "no-controls", "controls-off-chance", "lower-bound", "extrapolated", "no-headline", CLAIMED)
"""What lets no limit count as kept, by the name that ``--allow`` takes."""


@dataclass(frozen=True)
class Limit:
    """The worst that a figure may be: ``name`` is ``metric`` (of every leakage task), with ``task/`` before it or not.

    A harness task's filter comes last: ``task/metric/filter``.
    """

    name: str
    value: float


@dataclass(frozen=True)
class LimitOutcome:
    """Whether one figure of one run keeps to its limit; ``words`` say it."""

    kept: bool
    words: str


def outcomes(
    runs: Sequence[Run], limits: Sequence[Limit], *, point_estimate: bool = False, allowed: Collection[str] = ()
) -> list[LimitOutcome]:
    """Every limit against every run, and an outcome for each task that a limit cannot be trusted to.

    A limit is kept if the worse end of the figure's 95 % interval keeps it; with ``point_estimate``, if the figure
    does. ``allowed`` names what is waived (:data:`WAIVERS`). Raises ResultsError where a run lacks a figure that is
    limited, and OptionError for one that has no better side.
    """
    return [
        outcome
        for run in runs
        for outcome in (*_check_warnings(run, limits, allowed), *_check_limits(run, limits, point_estimate, allowed))
    ]


def waived(runs: Sequence[Run], allowed: Collection[str]) -> Iterator[str]:
    """What would have failed but for its waiver, in words."""
    for run in runs:
        for task, result in sorted(run.tasks.items()):
            for flag in _flags(result):
                if flag.waiver in allowed:
                    yield f"{run.name}: {task}: waived: {flag.words}"


def headline_name(metric: str) -> str:
    """What a limit calls a metric of the canaries that were planted the fewest times."""
    return f"headline {metric}"


def limit_from(text: str) -> Limit:
    """A limit from ``metric=value``, ``task/metric=value`` or ``task/metric/filter=value``. Raises OptionError."""
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
    """Faults and missing headlines of any task; of those that a limit is for, whatever else says too little."""
    names = {limit.name for limit in limits}
    limited = {figure.result.task for figure in _figures(run) if names.intersection(figure.names)}
    for task, result in sorted(run.tasks.items()):
        for flag in _flags(result):
            # One that may be too low is told with the figure.
            if flag.waiver not in allowed and (flag.unranked or task in limited and not flag.low):
                words = f"{flag.words}{measure(flag)}; --allow {flag.waiver} waives it"
                yield LimitOutcome(False, f"{run.name}: {task}: {words}")


def _flags(result: TaskResult) -> list[Flag]:
    """A task's flags, and whether nothing but the manifest says that its canaries were planted."""
    found = flags(result)
    if result.claimed:
        words = "planting claimed by the manifest, not proven by data: give the task planted=FILE"
        found.append(Flag(result.task, "", None, words, waiver=CLAIMED))
    return found


def _check_limits(run: Run, limits: Sequence[Limit], point: bool, allowed: Collection[str]) -> Iterator[LimitOutcome]:
    for limit in limits:
        limited = [figure for figure in _figures(run) if limit.name in figure.names]
        known = [each for each in limited if each.found.value is not None]
        if not known:
            why, remedy = _missing(run, limit, bool(limited))
            raise ResultsError(
                f"{run.files[-1]}: {printable(limit.name)} {why}, so its limit cannot be checked: {remedy}, or leave "
                "the limit out"
            )
        for each in known:
            yield _judge(run, limit, each, point, allowed)


@dataclass(frozen=True)
class _Limitable:
    """A figure of a run, and what a limit may call it, the fullest name last."""

    result: TaskResult
    metric: str
    found: Figure
    names: tuple[str, ...]


def _figures(run: Run) -> Iterator[_Limitable]:
    for task, result in sorted(run.tasks.items()):
        for column, values in result.values.items():
            for metric in values:
                names = [f"{task}/{metric}/{column}"]
                if column == HEADLINE:
                    own = [metric] if result.is_leakage else []
                    names = [*_headline_names(result, metric), *own, *names, f"{task}/{metric}"]
                yield _Limitable(result, metric, figure(result, metric, column), tuple(names))


def _headline_names(result: TaskResult, metric: str) -> list[str]:
    """What a limit calls the metric if it is a headline: of canaries planted the fewest times, or of all there are."""
    row = result.rows.get(metric)
    of = "" if row is None else row.parent or metric
    return [headline_name(of)] if of and headline_of(result, of) == metric else []


def _missing(run: Run, limit: Limit, there: bool) -> tuple[str, str]:
    """Return why a figure cannot be limited, and the remedy."""
    usual = "run the task that measures it"
    if there:
        return "has no value", usual
    predicted_only = [task for task, result in sorted(run.tasks.items()) if result.predicted_only]
    if predicted_only:
        why = f"is not in it, as {', '.join(predicted_only)} ran under --predict_only and nothing was scored"
        return why, "run lm_eval again without --predict_only"
    filtered = [figure.names[-1] for figure in _figures(run) if figure.names[-1].startswith(f"{limit.name}/")]
    return f"is in it under filters only ({', '.join(filtered)})" if filtered else "is not in it", usual


def _judge(run: Run, limit: Limit, limited: _Limitable, point: bool, allowed: Collection[str]) -> LimitOutcome:
    better, found = _better(limited.result, limited.metric), limited.found
    end = None if point else found.high if better == "lower" else found.low
    value = found.value if end is None else end
    assert value is not None
    kept = value <= limit.value if better == "lower" else value >= limit.value
    sign = ("≤" if kept else ">") if better == "lower" else ("≥" if kept else "<")
    told, worst = _apart(value, limit.value)
    by = "point estimate" if point else "has no interval"
    by = by if end is None else f"worse end of the 95 % interval of {number(found.value)}"
    words = f"{run.name}: {limited.names[-1]} {told} {sign} {worst} ({by})"
    low = next((flag for flag in flags(limited.result) if flag.low and flag.waiver not in allowed), None)
    if kept and better == "lower" and low is not None:
        return LimitOutcome(False, f"{words}, which may be too low: {low.words}; --allow {low.waiver} waives it")
    return LimitOutcome(kept, words)


def _apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers in as many digits as show that they differ."""
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
        raise OptionError(f"{result.task}/{metric}: has no better side, so it cannot be limited: limit another figure")
    return better


def exceeded_by_chance(bits: float, count: int) -> float:
    """Probability that the most exposed of so many secrets no model saw has more than so many bits of exposure.

    Each has with probability 2^−bits (The Secret Sharer, Definition 4), or less where fillings are few.
    """
    share: float = 2.0 ** -max(bits, 0.0)
    return 1 - (1 - share) ** count

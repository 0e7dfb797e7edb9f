"""Limits on leakage, for continuous integration: which figures of which runs keep to them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leakage_tasks.errors import OptionError, ResultsError
from leakage_tasks.report.fields import printable
from leakage_tasks.report.figures import HEADLINE, Figure, figure, flags
from leakage_tasks.report.results import Run, TaskResult
from leakage_tasks.report.wording import number

NO_HEADLINE = "no-headline"
WAIVERS = (NO_HEADLINE,)
"""What ``--allow`` lets pass."""


@dataclass(frozen=True)
class Limit:
    """The worst that a figure may be: ``name`` is ``metric`` (of every leakage task), with ``task/`` before it or not.

    A harness task's filter comes last: ``task/metric/filter``.
    """

    name: str
    value: float


@dataclass(frozen=True)
class Verdict:
    """Whether one figure of one run keeps to its limit; ``words`` say it."""

    kept: bool
    words: str


def verdicts(
    runs: Sequence[Run], limits: Sequence[Limit], *, strict: bool = False, allowed: Sequence[str] = ()
) -> list[Verdict]:
    """Every limit against every run, and a verdict against each task whose controls show a fault or without headline.

    ``allowed`` names what is waived (:data:`WAIVERS`). ``strict`` takes the worse end of a figure's 95 % interval
    instead of the figure. Raises ResultsError where a run lacks a figure that is limited, and OptionError for one that
    has no better side.
    """
    return [verdict for run in runs for verdict in (*_faults(run, allowed), *_kept(run, limits, strict))]


def limit_from(text: str) -> Limit:
    """A limit from ``metric=value``, ``task/metric=value`` or ``task/metric/filter=value``. Raises OptionError."""
    name, _, value = text.rpartition("=")
    try:
        worst = float(value)
    except ValueError:
        worst = math.nan
    if not name.strip() or math.isnan(worst):
        raise OptionError(
            f"--limit {text!r}: expected metric=number, task/metric=number or task/metric/filter=number, as in --limit "
            "recall=0.01"
        )
    return Limit(name.strip(), worst)


def _faults(run: Run, allowed: Sequence[str]) -> Iterator[Verdict]:
    for task, result in sorted(run.tasks.items()):
        for flag in flags(result):
            if flag.no_headline and NO_HEADLINE not in allowed:
                yield Verdict(False, f"{run.name}: {task}: {flag.words} (waived by --allow {NO_HEADLINE})")
            elif flag.fault:
                yield Verdict(False, f"{run.name}: {task}: {flag.words} ({flag.row} = {number(flag.value)})")


def _kept(run: Run, limits: Sequence[Limit], strict: bool) -> Iterator[Verdict]:
    for limit in limits:
        limited = [each for each in _figures(run) if limit.name in each.names]
        known = [each for each in limited if each.found.value is not None]
        if not known:
            raise ResultsError(
                f"{run.files[-1]}: {printable(limit.name)} {_missing(run, limit, bool(limited))}, so its limit cannot "
                "be checked: run the task that measures it, or leave the limit out"
            )
        for each in known:
            yield _judged(run, limit, each, strict)


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
                    names = [*([metric] if result.is_leakage else []), *names, f"{task}/{metric}"]
                yield _Limitable(result, metric, figure(result, metric, column), tuple(names))


def _missing(run: Run, limit: Limit, there: bool) -> str:
    """Why a figure cannot be limited."""
    if there:
        return "has no value"
    filtered = [each.names[-1] for each in _figures(run) if each.names[-1].startswith(f"{limit.name}/")]
    return f"is in it under filters only ({', '.join(filtered)})" if filtered else "is not in it"


def _judged(run: Run, limit: Limit, limited: _Limitable, strict: bool) -> Verdict:
    better, found = _better(limited.result, limited.metric), limited.found
    end = found.high if better == "lower" else found.low
    value = end if strict and end is not None else found.value
    assert value is not None
    kept = value <= limit.value if better == "lower" else value >= limit.value
    sign = ("≤" if kept else ">") if better == "lower" else ("≥" if kept else "<")
    which = limited.names[-1] + (" (worse end of its interval)" if value is not found.value else "")
    told, worst = _apart(value, limit.value)
    words = f"{run.name}: {which} {told} {sign} {worst}"
    low = next((flag.words for flag in flags(limited.result) if flag.low), None)
    if kept and better == "lower" and low is not None:
        return Verdict(False, f"{words}, which may be too low: {low}")
    return Verdict(kept, words)


def _apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers in as many digits as show that they differ."""
    texts = number(one), number(other)
    digits = 4
    while one != other and texts[0] == texts[1]:
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        digits += 1
    return texts


def _better(result: TaskResult, metric: str) -> str:
    row = None if result.declared is None else result.declared.rows.get(metric)
    higher = result.higher_is_better.get(metric)
    better = row.better if row is not None else None if higher is None else "higher" if higher else "lower"
    if better is None:
        raise OptionError(f"{result.task}/{metric}: has no better side, so it cannot be limited: limit another figure")
    return better


def exceeded_by_chance(bits: float, count: int) -> float:
    """Probability that the most exposed of so many secrets no model saw has more than so many bits of exposure.

    Each has with probability 2^−bits (The Secret Sharer, Definition 4), or less where fillings are few.
    """
    share: float = 2.0 ** -max(bits, 0.0)
    return 1 - (1 - share) ** count

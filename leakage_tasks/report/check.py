"""Limits on leakage, for continuous integration: which figures of which runs pass them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leakage_tasks.errors import OptionError, ResultsError
from leakage_tasks.report.figures import Figure, figure, flags
from leakage_tasks.report.results import Run, TaskResult
from leakage_tasks.report.wording import number


@dataclass(frozen=True)
class Limit:
    """The worst that a figure may be: ``metric`` of ``task``, or of every leakage task that has it (None)."""

    task: str | None
    metric: str
    value: float


@dataclass(frozen=True)
class Verdict:
    """Whether one figure of one run keeps to its limit; ``words`` say it."""

    kept: bool
    words: str


def verdicts(runs: Sequence[Run], limits: Sequence[Limit], *, strict: bool = False) -> list[Verdict]:
    """Every limit against every run, and a verdict against each task whose controls show a fault.

    ``strict`` takes the worse end of a figure's 95 % interval instead of the figure. Raises ResultsError where a run
    lacks a figure that is limited, and OptionError for one that has no better side.
    """
    return [verdict for run in runs for verdict in (*_faults(run), *_kept(run, limits, strict))]


def limit_from(text: str) -> Limit:
    """A limit from ``metric=value`` or ``task/metric=value``. Raises OptionError."""
    name, _, value = text.partition("=")
    task, slash, metric = name.strip().rpartition("/")
    try:
        worst = float(value)
    except ValueError:
        worst = float("nan")
    if not metric or worst != worst:
        raise OptionError(f"--limit {text!r}: expected metric=number or task/metric=number, as in --limit recall=0.01")
    return Limit(task if slash else None, metric, worst)


def _faults(run: Run) -> Iterator[Verdict]:
    for task, result in sorted(run.tasks.items()):
        for flag in flags(result):
            if flag.fault:
                yield Verdict(False, f"{run.name}: {task}: {flag.words} ({flag.row} = {number(flag.value)})")


def _kept(run: Run, limits: Sequence[Limit], strict: bool) -> Iterator[Verdict]:
    for limit in limits:
        fitting = [
            result
            for task, result in sorted(run.tasks.items())
            if (limit.task == task or (limit.task is None and result.is_leakage))
            and any(limit.metric in values for values in result.values.values())
        ]
        found = [(result, figure(result, limit.metric)) for result in fitting]
        known = [(result, each) for result, each in found if each.value is not None]
        if not known:
            named = f"{limit.task}/{limit.metric}" if limit.task else limit.metric
            why = "has no value" if found else "is not in it"
            raise ResultsError(
                f"{run.files[-1]}: {named} {why}, so its limit cannot be checked: run the task that measures it, or "
                "leave the limit out"
            )
        for result, each in known:
            yield _judged(run, result, limit, each, strict)


def _judged(run: Run, result: TaskResult, limit: Limit, found: Figure, strict: bool) -> Verdict:
    better = _better(result, limit.metric)
    end = found.high if better == "lower" else found.low
    value = end if strict and end is not None else found.value
    assert value is not None
    kept = value <= limit.value if better == "lower" else value >= limit.value
    sign = ("≤" if kept else ">") if better == "lower" else ("≥" if kept else "<")
    which = f"{result.task}/{limit.metric}" + (" (worse end of its interval)" if value is not found.value else "")
    return Verdict(kept, f"{run.name}: {which} {number(value)} {sign} {number(limit.value)}")


def _better(result: TaskResult, metric: str) -> str:
    row = None if result.declared is None else result.declared.rows.get(metric)
    higher = result.higher_is_better.get(metric)
    better = row.better if row is not None else None if higher is None else "higher" if higher else "lower"
    if better is None:
        raise OptionError(f"{result.task}/{metric}: has no better side, so it cannot be limited: limit another figure")
    return better


def passed_by_chance(bits: float, count: int) -> float:
    """Probability that the most exposed of so many secrets no model saw has more than so many bits of exposure.

    Each has with probability 2^−bits (The Secret Sharer, Definition 4), or less where fillings are few.
    """
    share: float = 2.0 ** -max(bits, 0.0)
    return 1 - (1 - share) ** count

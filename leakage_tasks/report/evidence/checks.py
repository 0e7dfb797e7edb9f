"""The checks on a run: validity checks that its tasks declare, limits of ``leakage check``, and a self-test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.records import WrongField, mapping
from leakage_tasks.report.check.check import CLAIMED, LimitOutcome, limit_from, outcomes
from leakage_tasks.report.evidence.record import Check, Fact, Settings, Tested
from leakage_tasks.report.load.results import Run
from leakage_tasks.report.load.validate import load_json, text

SELFTEST = "leakage selftest --model hf --model_args … -o selftest.json"


def checks_of(run: Run) -> Iterator[Check]:
    """Yield each check that a task's metrics declare, and the proof of planting of tasks with planted canaries."""
    for task, result in sorted(run.tasks.items()):
        for name, row in result.rows.items() if result.answered else ():
            if row.check is not None and name in result.headline:
                value = result.headline[name]
                held = None if value is None else value >= row.check.below
                yield Check(task, row.check.name, row.check.words, name, value, row.check.below, held)
        if result.tested.get("planted") and result.tested.get("kinds") != ["natural"]:
            words = "planting proven by the data: the task read them with planted=FILE"
            yield Check(task, CLAIMED, words, "planting", None, 0.0, not result.claimed)


def limit_outcomes(run: Run, settings: Settings) -> tuple[LimitOutcome, ...]:
    """Return the outcomes of ``leakage check`` for the report's limits. Raises ResultsError and OptionError."""
    limits = [limit_from(limit) for limit in settings.limits]
    return tuple(outcomes([run], limits, allowed=settings.allow))


def read_selftest(path: Path) -> tuple[list[Fact], tuple[Tested, ...]]:
    """Return the settings and the checks in a file of ``leakage selftest -o``. Raises ResultsError."""
    try:
        data = load_json(path)
    except (UnicodeDecodeError, ValueError):
        raise _no_selftest(path, "not JSON") from None
    try:
        data = mapping(data, "")
        rows = data.get("checks")
        if not isinstance(rows, list) or not rows:
            raise WrongField("checks", "a list of checks", rows)
        tested = tuple(_tested(row, f"checks.{number}") for number, row in enumerate(rows))
        settings = [Fact(f"Self-test, {name}", text(data.get(name, ""), name)) for name in ("model", "model_args")]
        return [fact for fact in settings if fact.value], tested
    except WrongField as error:
        raise _no_selftest(path, str(error)) from None


def _tested(row: Any, where: str) -> Tested:
    row = mapping(row, where)
    return Tested(*(text(row.get(name), f"{where}.{name}") for name in ("check", "verdict", "words")))


def _no_selftest(path: Path, why: str) -> ResultsError:
    return ResultsError(f"{path}: holds no self-test ({why}): give a file of 'leakage selftest -o FILE'")


def failed(checks: Sequence[Check]) -> list[Check]:
    """Return the checks that did not hold."""
    return [check for check in checks if check.held is False]

"""All checks on one model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.version import __version__
from leakage_tasks.selftest import agreement, batch_size, chance, plain
from leakage_tasks.selftest.rows import BROKEN, HELD, SelfTestRow
from leakage_tasks.selftest.subject import SelfTestSettings, Subject, no_other_bars

CHECKS: tuple[Callable[[Subject], SelfTestRow], ...] = (chance.check, agreement.check, plain.check, batch_size.check)
FALSE_ALARMS = chance.LEVEL + agreement.LEVEL
"""Probability that a check of a model whose numbers hold fails by chance; the other two leave nothing to it."""
SCHEMA = 1


def run_checks(lm: Any, settings: SelfTestSettings) -> list[SelfTestRow]:
    """A row for each check of a harness model. Raises LeakageError where the model or an option cannot be used."""
    subject = Subject.of(lm, settings)
    with no_other_bars():
        return [check(subject) for check in CHECKS]


def summary(rows: list[SelfTestRow]) -> str:
    """What the rows come to, in one line."""
    held, broken = (sum(row.verdict == verdict for row in rows) for verdict in (HELD, BROKEN))
    skipped = len(rows) - held - broken
    rest = f", {skipped} do not apply" if skipped > 1 else ", 1 does not apply" if skipped else ""
    if broken:
        return f"{broken} of {held + broken} checks did not hold{rest}"
    chance = f"a model whose numbers hold fails one by chance in {FALSE_ALARMS:.0%} of runs"
    return f"all {held} checks held{rest} ({chance})" if held else "no check applies"


def write_report(path: Path, rows: list[SelfTestRow], asked: Mapping[str, Any]) -> None:
    """The rows as JSON, with what was ``asked``. Raises LeakageError where the file cannot be written."""
    report = {
        "schema": SCHEMA,
        "version": __version__,
        **asked,
        "held": not any(row.verdict == BROKEN for row in rows),
        "false_alarms": FALSE_ALARMS,
        "checks": [row.to_json() for row in rows],
    }
    with replacing(path) as beside:
        beside.write_text(json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")

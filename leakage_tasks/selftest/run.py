"""All checks on one model, built as ``lm_eval`` builds it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from leakage_tasks.core.atomic import write_text
from leakage_tasks.core.errors import LeakageError, OptionError, TargetError
from leakage_tasks.core.log import first_line
from leakage_tasks.core.version import __version__
from leakage_tasks.harness import plugin
from leakage_tasks.harness.run import model_class
from leakage_tasks.selftest import agreement, batch_size, chance, plain
from leakage_tasks.selftest.rows import BROKEN, HELD, SelfTestRow
from leakage_tasks.selftest.subject import SelfTestSettings, Subject

CHECKS: tuple[Callable[[Subject], SelfTestRow], ...] = (chance.check, agreement.check, plain.check, batch_size.check)
FALSE_ALARMS = chance.LEVEL + agreement.LEVEL
"""Probability that a check of a model whose numbers hold fails by chance; the other two leave nothing to it."""
SCHEMA = 1


def load_model(
    name: str,
    arguments: str,
    batch_size: str | None = None,
    max_batch_size: int | None = None,
    device: str | None = None,
    command: str = "selftest",
) -> Any:
    """The model that ``lm_eval --model name --model_args arguments`` would ask.

    Raises OptionError for a name the harness does not know and TargetError for a model that cannot be loaded.
    """
    plugin.install(f"leakage {command}")
    try:
        kind = model_class(name)
    except (ValueError, KeyError):
        raise OptionError(f"--model {name}: the harness knows no such model: correct it, or install it first") from None
    except ImportError as error:
        raise TargetError(f"--model {name}: cannot be loaded ({first_line(error)}): install what it needs") from None
    settings = {"batch_size": batch_size, "max_batch_size": max_batch_size, "device": device}
    try:
        lm = kind.create_from_arg_string(arguments, settings)
    except LeakageError:
        raise
    except Exception as error:
        why = first_line(error)[:200]
        raise TargetError(
            f"--model_args {arguments}: no {name} model can be made of that ({why}): correct it"
        ) from None
    if lm.world_size > 1:
        raise OptionError(f"{command} runs in one process: start it without 'accelerate launch'")
    return lm


def run_checks(lm: Any, settings: SelfTestSettings) -> list[SelfTestRow]:
    """A row for each check of a harness model. Raises LeakageError where the model or an option cannot be used."""
    subject = Subject.of(lm, settings)
    # The harness' own progress bars, one for each question it is asked, stay off the terminal.
    with redirect_stderr(io.StringIO()):
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
        "checks": [vars(row) for row in rows],
    }
    write_text(path, json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n")

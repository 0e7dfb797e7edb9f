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
"""Probability that a check fails on a correct model by chance; the other two checks are deterministic."""
SCHEMA = 1


def load_model(
    name: str,
    arguments: str,
    batch_size: str | None = None,
    max_batch_size: int | None = None,
    device: str | None = None,
    command: str = "selftest",
) -> Any:
    """Load the model of ``lm_eval --model name --model_args arguments``.

    Args:
        name: Name of the model class in the harness.
        arguments: Arguments of the model, separated by commas.
        batch_size: The harness' ``--batch_size``.
        max_batch_size: The harness' ``--max_batch_size``.
        device: The harness' ``--device``.
        command: The ``leakage`` command that loads the model, for messages.

    Returns:
        The harness model.

    Raises:
        OptionError: If the harness does not know the name, or if several processes run.
        TargetError: If the model cannot be loaded.
    """
    plugin.install(f"leakage {command}")
    try:
        kind = model_class(name)
    except (ValueError, KeyError):
        raise OptionError(f"--model {name}: the harness knows no such model: correct it, or install it first") from None
    except ImportError as error:
        raise TargetError(f"--model {name}: cannot be loaded ({first_line(error)}): install its dependencies") from None
    settings = {"batch_size": batch_size, "max_batch_size": max_batch_size, "device": device}
    try:
        lm = kind.create_from_arg_string(arguments, settings)
    except LeakageError:
        raise
    except Exception as error:
        why = first_line(error)[:200]
        raise TargetError(
            f"--model_args {arguments}: cannot build a {name} model from these arguments ({why}): correct them"
        ) from None
    if lm.world_size > 1:
        raise OptionError(f"{command} runs in one process: start it without 'accelerate launch'")
    return lm


def run_checks(lm: Any, settings: SelfTestSettings) -> list[SelfTestRow]:
    """Run all checks on a harness model and return their rows.

    Raises LeakageError if the model or an option cannot be used.
    """
    subject = Subject.of(lm, settings)
    # Hides the harness' own progress bars, which appear for each request.
    with redirect_stderr(io.StringIO()):
        return [check(subject) for check in CHECKS]


def summary(rows: list[SelfTestRow]) -> str:
    """Summarize the rows in one line."""
    held, broken = (sum(row.verdict == verdict for row in rows) for verdict in (HELD, BROKEN))
    skipped = len(rows) - held - broken
    rest = f", {skipped} do not apply" if skipped > 1 else ", 1 does not apply" if skipped else ""
    if broken:
        return f"{broken} of {held + broken} checks did not hold{rest}"
    chance = f"a correct model fails one by chance in {FALSE_ALARMS:.0%} of runs"
    return f"all {held} checks held{rest} ({chance})" if held else "no check applies"


def write_report(path: Path, rows: list[SelfTestRow], arguments: Mapping[str, Any]) -> None:
    """Write the rows and the ``arguments`` of the run as JSON. Raises LeakageError if the file cannot be written."""
    report = {
        "schema": SCHEMA,
        "version": __version__,
        **arguments,
        "held": not any(row.verdict == BROKEN for row in rows),
        "false_alarms": FALSE_ALARMS,
        "checks": [vars(row) for row in rows],
    }
    write_text(path, json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n")

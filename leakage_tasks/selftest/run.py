"""All checks on one model, loaded as ``lm_eval`` loads it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch

from leakage_tasks.core.atomic import write_text
from leakage_tasks.core.errors import LeakageError, OptionError, TargetError
from leakage_tasks.core.log import first_line
from leakage_tasks.core.version import __version__
from leakage_tasks.harness import plugin
from leakage_tasks.harness.run import model_class
from leakage_tasks.selftest import agreement, batch_size, chance, plain
from leakage_tasks.selftest.rows import BROKEN, HELD, SelfTestRow
from leakage_tasks.selftest.subject import SelfTestSettings, Subject
from leakage_tasks.targets.full_float32 import full_float32

CHECKS: tuple[Callable[[Subject], SelfTestRow], ...] = (chance.check, agreement.check, plain.check, batch_size.check)
FALSE_ALARMS = chance.LEVEL + agreement.LEVEL
"""Probability that a correct model fails a check by chance; the other two checks are deterministic."""
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
        name: The harness' name of the model class.
        arguments: The value of ``--model_args``.
        batch_size: The value of ``--batch_size``.
        max_batch_size: The value of ``--max_batch_size``.
        device: The value of ``--device``.
        command: The command's name for messages.

    Raises:
        OptionError: If the harness does not know the name, if a model needs arguments and has none, or if several
            processes run.
        TargetError: If the model cannot be loaded.
    """
    plugin.install(f"leakage {command}")
    try:
        kind = model_class(name)
    except (ValueError, KeyError):
        raise OptionError(f"--model {name}: the harness knows no such model: correct it, or install it first") from None
    except ImportError as error:
        raise TargetError(
            f"--model {name}: cannot be loaded ({first_line(error)}): install the missing packages"
        ) from None
    settings = {"batch_size": batch_size, "max_batch_size": max_batch_size, "device": device}
    try:
        lm = kind.create_from_arg_string(arguments, settings)
    except LeakageError:
        raise
    except Exception as error:
        why = first_line(error)[:200]
        if not arguments:
            more = "" if isinstance(error, TypeError) else f" ({why})"
            raise OptionError(
                f"--model_args is missing{more}: give the arguments of the {name} model, such as --model_args "
                "pretrained=./model"
            ) from None
        raise TargetError(
            f"--model_args {arguments}: cannot load a {name} model from these arguments ({why}): correct them"
        ) from None
    if lm.world_size > 1:
        raise OptionError(f"{command} runs in one process: start it without 'accelerate launch'")
    return lm


def run_checks(lm: Any, settings: SelfTestSettings) -> list[SelfTestRow]:
    """Return a row for each check of a harness model. Raises LeakageError for an unusable model or option."""
    subject = Subject.of(lm, settings)
    # Hides the harness' own progress bars, which appear for each request. The harness would score in TF32 on a GPU.
    with redirect_stderr(io.StringIO()), full_float32(torch.device(getattr(lm, "device", None) or "cpu")):
        return [check(subject) for check in CHECKS]


def summary(rows: list[SelfTestRow]) -> str:
    """Return a one-line summary of the rows."""
    held, broken = (sum(row.verdict == verdict for row in rows) for verdict in (HELD, BROKEN))
    skipped = len(rows) - held - broken
    rest = f", {skipped} do not apply" if skipped > 1 else ", 1 does not apply" if skipped else ""
    if broken:
        return f"{broken} of {held + broken} checks did not hold{rest}"
    chance = f"a correct model fails one by chance in {100 * FALSE_ALARMS:.0f} % of runs"
    return f"all {held} checks held{rest} ({chance})" if held else "no check applies"


def write_report(path: Path, rows: list[SelfTestRow], options: Mapping[str, Any]) -> None:
    """Write the rows and the ``options`` of the command as JSON. Raises LeakageError if the file is not writable."""
    report = {
        "schema": SCHEMA,
        "version": __version__,
        **options,
        "held": not any(row.verdict == BROKEN for row in rows),
        "false_alarms": FALSE_ALARMS,
        "checks": [vars(row) for row in rows],
    }
    write_text(path, json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n")

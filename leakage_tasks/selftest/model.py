"""A harness model built as ``lm_eval`` builds it."""

from __future__ import annotations

from typing import Any

from leakage_tasks.core.errors import LeakageError, OptionError, TargetError
from leakage_tasks.core.log import first_line
from leakage_tasks.tasks import plugin


def load_model(
    name: str,
    arguments: str,
    batch_size: str | None = None,
    max_batch_size: int | None = None,
    device: str | None = None,
) -> Any:
    """The model that ``lm_eval --model name --model_args arguments`` would ask.

    Raises OptionError for a name the harness does not know and TargetError for a model that cannot be loaded.
    """
    plugin.install("leakage selftest")
    from lm_eval.api.registry import get_model

    try:
        kind = get_model(name)
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
        raise OptionError("selftest runs in one process: start it without 'accelerate launch'")
    return lm

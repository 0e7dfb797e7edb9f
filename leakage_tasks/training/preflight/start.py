"""Check of the training data by a callback when training begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import Trainer

from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.core.log import log
from leakage_tasks.training.preflight.check import preflight

NAME = "preflight.json"
"""Name of the file with the result, in the trainer's output folder."""


def check_before_training(
    trainer: Trainer, manifest: str | Path, rows: int | None, tokenizer: Any, strict: bool
) -> None:
    """Check the trainer's data, write the result to a file, and log problems as warnings.

    Args:
        trainer: The trainer.
        manifest: The manifest of the canaries.
        rows: Number of rows to check; None for all.
        tokenizer: Tokenizer to use instead of the trainer's ``processing_class``.
        strict: Raise an error if a planted canary is absent.

    Raises:
        PlantingError: A planted canary is absent from all of the data.
    """
    try:
        result = preflight(trainer, manifest, rows=rows, tokenizer=tokenizer)
    except OptionError as error:
        log.warning("ExposureCallback: the training data cannot be checked for canaries: %s", error)
        return
    folder = Path(trainer.args.output_dir or ".")
    folder.mkdir(parents=True, exist_ok=True)
    result.write(folder / NAME)
    if strict and (absences := list(result.absences())):
        raise PlantingError(f"ExposureCallback: {'; '.join(absences)}; strict=False trains anyway")
    for message in (*result.problems(), *result.remarks()):
        log.warning("ExposureCallback: %s", message)

"""The look that a callback takes as training begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import Trainer

from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.core.log import log
from leakage_tasks.training.preflight.check import preflight

NAME = "preflight.json"
"""What was found, in the trainer's output folder."""


def look_before_training(
    trainer: Trainer, manifest: str | Path, rows: int | None, tokenizer: Any, strict: bool
) -> None:
    """Look at the trainer's data, write down what is found, and warn of what is wrong with it.

    Raises PlantingError where a planted canary is absent from all of the data, unless ``strict`` is false.
    """
    try:
        found = preflight(trainer, manifest, rows=rows, tokenizer=tokenizer)
    except OptionError as error:
        log.warning("ExposureCallback: whether the canaries are in the training data is not known: %s", error)
        return
    folder = Path(trainer.args.output_dir or ".")
    folder.mkdir(parents=True, exist_ok=True)
    found.write(folder / NAME)
    if strict and (absences := list(found.absences())):
        raise PlantingError(f"ExposureCallback: {'; '.join(absences)}; strict=False trains all the same")
    for each in (*found.problems(), *found.remarks()):
        log.warning("ExposureCallback: %s", each)

"""Trials of The Secret Sharer on the Penn Treebank's small parts, with models of the paper's size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.framework.registry import Config, Result, StudyPlan
from leakage_tasks.research.framework.shared import data_folder, file_hash
from leakage_tasks.research.secret_sharer.experiment import (
    EXPERIMENTS,
    PAPER,
    PTB,
    PlantedText,
    Watch,
    configs,
)
from leakage_tasks.research.secret_sharer.trials import observed_training

if TYPE_CHECKING:
    from leakage_tasks.research.victims.corpus import TextSplit

TRAINED_ON, SPLIT = "ptb.test.txt", "ptb.valid.txt"
"""The part for training, and the part whose beginning is held out."""
TREEBANK = replace(PAPER, held_out=50_000, epochs=30, batch_size=32, budget=10_000, seeds=3)
"""All of the two parts; the paper's single copy, model and windows, and about as many steps as the paper's best epoch.
"""


def treebank_configs(plan: StudyPlan, watch: Watch, variants: Iterable[Config] = ({},)) -> list[Config]:
    """List a trial for each seed and variant, as :func:`configs` does; ``smoke`` reads help text."""
    ground = EXPERIMENTS["smoke"] if plan.scale == "smoke" else TREEBANK
    parts = {name: file_hash(_folder() / name) for name in (TRAINED_ON, SPLIT)} if ground.data == PTB else {}
    return [{**config, "parts": parts} for config in configs(plan, variants, watch=watch, ground=ground)]


def run(config: Config, shared: Path) -> Result:
    """Train a model and measure its canaries, with a result as the paper's other trials have."""
    return observed_training(config, treebank_text(config))


def treebank_text(config: Config) -> PlantedText:
    """Return the two parts with secrets, or Python's help text if the trial's experiment uses it.

    Raises LeakageError if a part is missing.
    """
    ground = config["ground"]
    return PlantedText(config, config["secrets"], _parts(ground["held_out"]) if ground["data"] == PTB else None)


def _folder() -> Path:
    return data_folder() / "ptb"


def _parts(held_out: int) -> TextSplit:
    """Return one part and most of the other for training, and ``held_out`` characters up to the end of a line."""
    from leakage_tasks.research.victims.corpus import TextSplit

    texts = []
    for path in (_folder() / TRAINED_ON, _folder() / SPLIT):
        if not path.is_file():
            raise LeakageError(
                f"{path}: no such file: set LEAKAGE_DATA to a folder with the Penn Treebank's parts in ptb/"
            )
        texts.append(path.read_text(encoding="utf-8"))
    test_part, validation_part = texts
    end = validation_part.index("\n", held_out) + 1
    return TextSplit(training=test_part + validation_part[end:], held_out=validation_part[:end])

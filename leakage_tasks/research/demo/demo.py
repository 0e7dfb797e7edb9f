"""The demo: plant canaries in a text, train a model on it, and find them with the harness."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.core.atomic import write_text
from leakage_tasks.core.own_folder import own_folder
from leakage_tasks.report.plots.exposure import plot_exposure_by_epoch
from leakage_tasks.report.reading.training_log import EpochExposure
from leakage_tasks.research.demo.report import DemoResult, copies_of, format_by_copies, means_by_copies, show_demo
from leakage_tasks.research.demo.settings import DemoFiles
from leakage_tasks.research.demo.text_victims import TASKS, TEMPLATE, DemoText
from leakage_tasks.research.victims.harness_run import HarnessCommand

if TYPE_CHECKING:
    from leakage_tasks.canaries import Canary
    from leakage_tasks.models.recurrent import CharLSTMForCausalLM
    from leakage_tasks.research.victims.corpus import TextSplit
    from leakage_tasks.training.fitting import EpochLoss, OnEpoch, TrainedLM

REPETITIONS = (1, 10)
PLANTED = 4
CONTROLS = 8
CHARACTERS = 100_000
EPOCHS = 9
WATCH_BUDGET = 500
"""Sequences scored per canary after each epoch, enough for a plot; the harness run uses the full budget."""


def demo(
    output: str | Path = Path("runs/demo"),
    *,
    epochs: int = EPOCHS,
    seed: int = 0,
    controls: int = CONTROLS,
    corpus: TextSplit | None = None,
    budget: int | None = None,
) -> DemoResult:
    """Plant canaries in a text, train on it, run the unmodified ``lm_eval``, and print the results.

    Files go to ``output``, where an earlier run is replaced. No network is needed.

    Args:
        output: the folder.
        epochs: epochs of training.
        seed: of the canaries, their positions and the model.
        controls: canaries that are never planted.
        corpus: default: Python's help text.
        budget: sequences scored per canary; default: the tasks' own.

    Raises:
        LeakageError: the folder cannot be written or contains other files, or the harness fails.
    """
    from leakage_tasks.canaries.generate import make_canaries
    from leakage_tasks.report.publish import write_board, write_card
    from leakage_tasks.research.victims.corpus import pydoc_topics

    started = time.perf_counter()
    folder = Path(output)
    own_folder(folder, "leakage demo", DemoFiles.names() | {"planted.txt.leakage.json"})
    files = DemoFiles.under(folder)
    generated = make_canaries(TEMPLATE, PLANTED, repetitions=REPETITIONS, controls=controls, seed=seed)
    # Few canaries with a fixed seed keep the demo short and reproducible.
    canaries = [replace(canary, seed=seed, profile="smoke") for canary in generated]
    text = DemoText(folder, corpus or pydoc_topics(characters=CHARACTERS), canaries, seed)
    history: list[EpochExposure] = []
    trained = text.train(epochs, on_epoch=_watcher(text, canaries, history, seed))
    _save(trained, history, files)
    metadata: dict[str, str | int] = {"canaries": str(files.manifest), "text": str(files.held_out)}
    metadata |= {} if budget is None else {"budget": budget}
    command = HarnessCommand(files.model, TASKS, metadata, files.results)
    print(f"\nNow the harness, unmodified (messages in {files.log}):\n  {command}\n", flush=True)
    table = command.run(files.log)
    write_board(files.results, files.board)
    write_card(files.results, files.card, name="demo")
    extraction, exposure = (command.findings(task) for task in TASKS[:2])
    result = DemoResult(files, table, extraction, exposure, history, time.perf_counter() - started)
    show_demo(result, canaries)
    return result


def demo_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for everything the demo writes.")] = Path(
        "runs/demo"
    ),
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of training.")] = EPOCHS,
    controls: Annotated[int, typer.Option(min=1, help="Canaries that are never planted, to show chance.")] = CONTROLS,
    seed: Annotated[int, typer.Option(help="Random seed of the canaries, their positions and the model.")] = 0,
) -> None:
    """Plant canaries in a text, train a small model on it and let lm_eval find them (minutes, no network)."""
    demo(output, epochs=epochs, seed=seed, controls=controls)


def _watcher(text: DemoText, canaries: Sequence[Canary], history: list[EpochExposure], seed: int) -> OnEpoch:
    """Return a function that measures exposure after each epoch, prints it and adds it to ``history``."""
    from tqdm import tqdm

    from leakage_tasks.attacks import run_attack
    from leakage_tasks.targets import CausalTarget

    def watch(epoch: int, model: CharLSTMForCausalLM, losses: Sequence[EpochLoss]) -> None:
        target = CausalTarget(model, text.tokenizer)
        findings = run_attack("exposure", target, canaries, budget=WATCH_BUDGET, seed=seed)
        points = [
            EpochExposure(epoch, finding.canary, copies_of(finding), finding.exposure or 0.0, finding.log2_size)
            for finding in findings
        ]
        history.extend(points)
        means = means_by_copies((point.repetitions, point.exposure) for point in points)
        summary = format_by_copies("mean exposure in bits", means)
        tqdm.write(f"epoch {epoch}: {losses[-1].validation:.2f} bits/character held out; {summary}")

    return watch


def _save(trained: TrainedLM, history: Sequence[EpochExposure], files: DemoFiles) -> None:
    trained.save(files.model)
    losses = [asdict(loss) for loss in trained.losses]
    record = {"losses": losses, "exposures": [asdict(point) for point in history]}
    write_text(files.history, json.dumps(record, indent=1))
    plot_exposure_by_epoch(history, files.plot)

"""The demo: plant canaries in a text, train a small model on it, and audit the model with the harness."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.help import START, command_help
from leakage_tasks.core.atomic import write_text
from leakage_tasks.core.output_folder import claim_output_folder
from leakage_tasks.report.load.training_log import EpochExposure
from leakage_tasks.report.plots.exposure import plot_exposure_by_epoch
from leakage_tasks.research.demo.report import DemoResult, copies_of, mean_exposures, means_in_words, show_demo
from leakage_tasks.research.demo.settings import DemoFiles
from leakage_tasks.research.demo.text_victims import TASKS, TEMPLATE, DemoText
from leakage_tasks.research.victims.harness_run import HarnessCommand

if TYPE_CHECKING:
    from leakage_tasks.canaries import Canary
    from leakage_tasks.metrics.conclusion import Verdict
    from leakage_tasks.models.recurrent import CharLSTMForCausalLM
    from leakage_tasks.research.victims.corpus import TextSplit
    from leakage_tasks.training.fitting import EpochLoss, OnEpoch, TrainedLM

REPETITIONS = (1, 10)
PLANTED = 4
CONTROLS = 8
CHARACTERS = 100_000
EPOCHS = 9
WATCH_BUDGET = 500
"""Sequences scored per canary after each epoch. The audit at the end uses the full budget."""


def demo(
    output: str | Path = Path("runs/demo"),
    *,
    epochs: int = EPOCHS,
    seed: int = 0,
    controls: int = CONTROLS,
    corpus: TextSplit | None = None,
    budget: int | None = None,
) -> DemoResult:
    """Plant canaries in a text, train a model on it, run ``lm_eval``, and print the results. Needs no network.

    Args:
        output: Folder for all files; an earlier run is replaced.
        epochs: Number of training epochs.
        seed: Random seed of the canaries, their positions and the model.
        controls: Number of canaries that are not planted.
        corpus: Text to train on (default: Python's help text).
        budget: Sequences scored per canary in the audit (default: as in the tasks).

    Returns:
        The results of the audit and the exposures during training.

    Raises:
        LeakageError: The folder cannot be written or has other files, or the harness fails.
    """
    from leakage_tasks.canaries.generate import make_canaries
    from leakage_tasks.report.publish import write_board, write_card
    from leakage_tasks.research.victims.corpus import pydoc_topics

    started = time.perf_counter()
    folder = Path(output)
    claim_output_folder(folder, "leakage demo", DemoFiles.names() | {"planted.txt.leakage.json"})
    files = DemoFiles.under(folder)
    generated = make_canaries(TEMPLATE, PLANTED, repetitions=REPETITIONS, controls=controls, seed=seed)
    # The canaries are few, so that the demo is short, and public, because everybody has this seed.
    canaries = [replace(canary, seed=seed, profile="smoke") for canary in generated]
    _step("1. Plant canaries in the training text")
    text = DemoText(folder, corpus or pydoc_topics(characters=CHARACTERS), canaries, seed)
    _step(f"2. Train, and estimate exposure after each epoch ({WATCH_BUDGET:,} sequences scored per canary)")
    history: list[EpochExposure] = []
    trained = text.train(epochs, on_epoch=_watcher(text, canaries, epochs, history, seed), show_progress=_on_screen())
    _save(trained, history, files)
    metadata: dict[str, str | int] = {"canaries": str(files.manifest), "text": str(files.held_out)}
    metadata |= {} if budget is None else {"budget": budget}
    command = HarnessCommand(files.model, TASKS, metadata, files.results)
    _step(f"3. Audit the model with the LM Evaluation Harness (about a minute; messages in {files.log})")
    print(f"{command}", flush=True)
    table = command.run(files.log)
    write_board(files.results, files.board)
    write_card(files.results, files.card, name="demo")
    extraction, exposure = (command.findings(task) for task in TASKS[:2])
    verdicts, bits_per_byte = _results(files)
    result = DemoResult(
        files, table, extraction, exposure, history, time.perf_counter() - started, verdicts, bits_per_byte
    )
    show_demo(result, canaries)
    return result


@command_help(START, example="leakage demo -o runs/demo")
def demo_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for all files of the demo.")] = Path(
        "runs/demo"
    ),
    epochs: Annotated[int, typer.Option(min=1, help="Number of training epochs.")] = EPOCHS,
    controls: Annotated[
        int, typer.Option(min=1, help="Number of canaries that are never planted, to show chance.")
    ] = CONTROLS,
    seed: Annotated[int, typer.Option(help="Random seed of the canaries, their positions and the model.")] = 0,
) -> None:
    """Plant canaries, train a small model and audit it.

    Takes a few minutes on two cores, without a network.
    """
    demo(output, epochs=epochs, seed=seed, controls=controls)


def _step(title: str) -> None:
    print(f"\n{title}", flush=True)


def _on_screen() -> bool:
    """Return True if standard error is a terminal: elsewhere, the epoch lines show progress."""
    return sys.stderr.isatty()


def _watcher(
    text: DemoText, canaries: Sequence[Canary], epochs: int, history: list[EpochExposure], seed: int
) -> OnEpoch:
    """Return a callback that prints the exposures after each epoch and appends them to ``history``."""
    from tqdm import tqdm

    from leakage_tasks.attacks import run_attack
    from leakage_tasks.targets import CausalTarget

    def watch(epoch: int, model: CharLSTMForCausalLM, losses: Sequence[EpochLoss]) -> None:
        target = CausalTarget(model, text.tokenizer)
        findings = run_attack("exposure", target, canaries, budget=WATCH_BUDGET, seed=seed)
        history.extend(
            EpochExposure(
                epoch,
                finding.canary,
                copies_of(finding),
                finding.exposure or 0.0,
                finding.log2_size,
                finding.method == "lower_bound",
            )
            for finding in findings
        )
        means = means_in_words(mean_exposures(findings))
        # Prints above the progress bar, if there is one.
        tqdm.write(
            f"epoch {epoch} of {epochs}: {losses[-1].validation:.2f} bits per held-out character; mean exposure in "
            f"bits if planted {means}"
        )
        sys.stdout.flush()

    return watch


def _save(trained: TrainedLM, history: Sequence[EpochExposure], files: DemoFiles) -> None:
    with _no_progress_bars():
        trained.save(files.model)
    losses = [asdict(loss) for loss in trained.losses]
    record = {"losses": losses, "exposures": [asdict(point) for point in history]}
    write_text(files.history, json.dumps(record, indent=1))
    plot_exposure_by_epoch(history, files.plot)


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Turn off the progress bars of transformers, which shows one for each file it saves."""
    from transformers.utils import logging

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


def _results(files: DemoFiles) -> tuple[dict[str, Verdict], float | None]:
    """Return the verdict on each canary task, and the bits per byte of the held-out text."""
    from leakage_tasks.metrics.verdict import verdict_of
    from leakage_tasks.report.load.results import read_runs

    (run,) = read_runs([files.results])
    # The results have no primary metric, because the canaries are few, but the tests of significance are valid.
    verdicts = {
        name: verdict_of(task.headline, task.declared.tested)
        for name, task in run.tasks.items()
        if task.declared is not None
    }
    held_out = run.tasks.get(TASKS[2])
    return (
        {name: verdict for name, verdict in verdicts.items() if verdict is not None},
        None if held_out is None else held_out.headline.get("bits_per_byte"),
    )

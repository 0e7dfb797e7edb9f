"""The showcase: three models and their leakage: an LSTM, an LSTM with DP-SGD, and a text classifier."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakage_tasks.core.atomic import write_text
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.own_folder import own_folder
from leakage_tasks.research.demo.report import ModelResult, ShowcaseResult, show_showcase
from leakage_tasks.research.demo.settings import CLASSIFIER, LSTM, PRIVATE_LSTM, ShowcaseFiles, Sizes
from leakage_tasks.research.victims.harness_run import HarnessCommand

if TYPE_CHECKING:
    from leakage_tasks.research.victims.corpus import TextSplit


def showcase(
    output: str | Path = Path("runs/showcase"),
    *,
    seed: int = 0,
    sizes: Sizes | None = None,
    corpus: TextSplit | None = None,
) -> ShowcaseResult:
    """Plant canaries, train three models, run the unmodified ``lm_eval`` on each, and print the results.

    ``corpus`` defaults to Python's help text. Files go to ``output``, where models and results of an earlier run are
    replaced. No network is needed. Raises LeakageError if opacus is missing, the folder cannot be written or the
    harness fails.
    """
    from leakage_tasks.report.publish import write_board
    from leakage_tasks.research.demo.showcase_labelled import classifier_command, train_classifier
    from leakage_tasks.research.demo.text_victims import TextVictims
    from leakage_tasks.training.dp.private import check_opacus

    started = time.perf_counter()
    check_opacus()
    files, sizes = ShowcaseFiles.under(Path(output)), sizes or Sizes()
    _make(files)
    text = TextVictims(files, sizes, seed, corpus)
    # The classifier is second: its run takes longest and continues while the next model is trained.
    plan: dict[str, tuple[Callable[[], dict[str, Any]], HarnessCommand]] = {
        LSTM: (text.train, text.command(LSTM)),
        CLASSIFIER: (lambda: train_classifier(files, sizes, seed), classifier_command(files, sizes)),
        PRIVATE_LSTM: (text.train_privately, text.command(PRIVATE_LSTM)),
    }
    runs: dict[str, Future[tuple[str, float]]] = {}
    training: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(1) as harness:
        for name, (train, command) in plan.items():
            _stop_if_failed(runs.values())
            print(f"\n{name}: training, then {command}", flush=True)
            training_started = time.perf_counter()
            trained = train()
            training[name] = {"seconds": round(time.perf_counter() - training_started, 1), **trained}
            runs[name] = harness.submit(_timed, command, files.logs / f"{name}.log")
        write_text(files.training, json.dumps(training, indent=1, ensure_ascii=False))
        print("\nWaiting for lm_eval …", flush=True)
        tables = {name: run.result() for name, run in runs.items()}
    models = [
        ModelResult(name, plan[name][1], *tables[name], training[name]) for name in (LSTM, PRIVATE_LSTM, CLASSIFIER)
    ]
    write_board(files.results, files.board)
    result = ShowcaseResult(files, models, time.perf_counter() - started)
    show_showcase(result)
    return result


def showcase_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for all files.")] = Path("runs/showcase"),
    seed: Annotated[int, typer.Option(help="Random seed of the canaries, their positions and the models.")] = 0,
) -> None:
    """Train three small models, one with DP-SGD, one a classifier, and let lm_eval measure each (about 10 minutes)."""
    showcase(output, seed=seed)


def _make(files: ShowcaseFiles) -> None:
    """Create the output folders. Raises LeakageError if that fails or the folder contains other files."""
    own_folder(files.folder, "leakage showcase", files.names())
    try:
        for folder in (files.text, files.labelled, files.tasks, files.results, files.logs):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LeakageError(
            f"{files.folder}: cannot create the folder ({error.strerror}): choose another --output"
        ) from None


def _stop_if_failed(runs: Iterable[Future[tuple[str, float]]]) -> None:
    """Raise the error of a failed run, so that no further training starts."""
    for run in runs:
        if run.done():
            run.result()


def _timed(command: HarnessCommand, log: Path) -> tuple[str, float]:
    """Return the harness' table and its duration in seconds."""
    started = time.perf_counter()
    return command.run(log), time.perf_counter() - started

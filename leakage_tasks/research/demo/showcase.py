"""The showcase: audits of an LSTM, an LSTM trained with DP-SGD, and a text classifier."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakage_tasks.cli.help import RESEARCH, command_help
from leakage_tasks.core.atomic import write_text
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.output_folder import claim_output_folder
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
    """Plant canaries, train three models, run ``lm_eval`` on each, and print the results. Needs no network.

    Args:
        output: Folder for all files; models and results of an earlier run are replaced.
        seed: Random seed of the canaries, their positions and the models.
        sizes: Sizes of texts and models; the defaults take about 10 minutes on two cores.
        corpus: Text to train on (default: Python's help text).

    Returns:
        The results of each model.

    Raises:
        LeakageError: opacus is missing, the folder cannot be written or the harness fails.
    """
    from leakage_tasks.report.publish import write_board
    from leakage_tasks.research.demo.showcase_labelled import classifier_command, train_classifier
    from leakage_tasks.research.demo.text_victims import TextVictims
    from leakage_tasks.training.dp.private import check_opacus

    started = time.perf_counter()
    check_opacus()
    files, sizes = ShowcaseFiles.under(Path(output)), sizes or Sizes()
    _make_folders(files)
    text = TextVictims(files, sizes, seed, corpus)
    # The classifier is second because its audit takes longest: it runs while the third model is trained.
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
            training_start = time.perf_counter()
            trained = train()
            training[name] = {"seconds": round(time.perf_counter() - training_start, 1), **trained}
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


@command_help(RESEARCH, example="leakage showcase -o runs/showcase")
def showcase_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for all files of the showcase.")] = Path(
        "runs/showcase"
    ),
    seed: Annotated[int, typer.Option(help="Random seed of the canaries, their positions and the models.")] = 0,
) -> None:
    """Train three small models, and audit each with lm_eval.

    The models are an LSTM, one trained with DP-SGD, and a text classifier. Takes about 10 minutes.
    """
    showcase(output, seed=seed)


def _make_folders(files: ShowcaseFiles) -> None:
    """Create the output folders. Raises LeakageError if that fails, or if the output folder has other files."""
    claim_output_folder(files.folder, "leakage showcase", files.names())
    try:
        for folder in (files.text, files.labelled, files.tasks, files.results, files.logs):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LeakageError(f"{files.folder}: cannot be made ({error.strerror}): choose another --output") from None


def _stop_if_failed(runs: Iterable[Future[tuple[str, float]]]) -> None:
    """Raise the exception of a failed run, before the next model is trained."""
    for run in runs:
        if run.done():
            run.result()


def _timed(command: HarnessCommand, log: Path) -> tuple[str, float]:
    """Run the harness, and return its table and the seconds it took."""
    started = time.perf_counter()
    return command.run(log), time.perf_counter() - started

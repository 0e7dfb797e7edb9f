"""``leakage preflight``: check that a trainer reads the planted canaries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from leakage_tasks.cli.help import CHECK
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import JsonOutput


@register_command("preflight", CHECK, 2, example="leakage preflight canaries.jsonl --trainer train:make_trainer")
def preflight_command(
    manifest: Annotated[Path, typer.Argument(help="Manifest of the canaries in the training data.")],
    trainer: Annotated[
        str,
        typer.Option(
            help="MODULE:FUNCTION of a function without arguments that returns your Trainer. The module is imported, "
            "from the current folder first."
        ),
    ],
    rows: Annotated[
        int | None, typer.Option(help="Number of rows of the training data to check, drawn at random (default: all).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the rows.")] = 0,
    output: JsonOutput = None,
) -> None:
    """Check that the trainer reads the planted canaries whole.

    For each canary the table has the copies planted, found whole, cut by truncation or packing, and in the loss. Exit
    code 1 if an audit would mean little: a canary is absent from the training data, or its secret is not in the loss.
    """
    from leakage_tasks.training.preflight import preflight

    report = preflight(partial(_load_trainer, trainer), manifest, rows=rows, seed=seed)
    for line in report.lines():
        print(line)
    if output is not None:
        report.write(output)
    raise typer.Exit(1 if any(report.problems()) else 0)


@contextmanager
def _one_line_errors(location: str, action: str, exempt: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn exceptions of the user's code into OptionError, except this package's errors and ``exempt`` types."""
    from leakage_tasks.core.errors import LeakageError, OptionError
    from leakage_tasks.core.log import first_line

    try:
        yield
    except Exception as error:  # the user's code may raise any exception
        if isinstance(error, (LeakageError, *exempt)):
            raise
        raise OptionError(
            f"--trainer {location}: {action} failed ({type(error).__name__}: {first_line(error)}): run it in Python "
            "to see the traceback"
        ) from error


def _load_trainer(location: str) -> Any:
    """Call the user's function and return its Trainer. Raises OptionError if there is no function or no Trainer."""
    from transformers import Trainer

    from leakage_tasks.core.errors import OptionError

    module, _, name = location.partition(":")
    sys.path.insert(0, "")
    try:
        if not name:
            raise ValueError("names no function")
        with _one_line_errors(location, f"importing {module}", exempt=(ImportError, ValueError)):
            imported = import_module(module)
        function = getattr(imported, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise OptionError(
            f"--trainer {location}: {error}: give MODULE:FUNCTION, such as train:make_trainer for "
            "make_trainer() in train.py"
        ) from error
    if not callable(function):
        kind = type(function).__name__
        raise OptionError(f"--trainer {location}: {name} has the type {kind}: give a function that returns a Trainer")
    with _one_line_errors(location, f"{name}()"):
        trainer = function()
    if not isinstance(trainer, Trainer):
        kind = type(trainer).__name__
        raise OptionError(f"--trainer {location}: the result has the type {kind}: return a transformers.Trainer")
    return trainer

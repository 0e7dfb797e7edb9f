"""``leakage preflight``: options in, a table out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from leakage_tasks.cli.registry import register_command


@register_command("preflight", 4)
def preflight_command(
    manifest: Annotated[Path, typer.Argument(help="Canary manifest that the training data was planted with.")],
    trainer: Annotated[
        str,
        typer.Option(
            help="Where your trainer is made, as MODULE:FUNCTION: the function takes nothing and returns the Trainer. "
            "The module is imported, from the current folder first."
        ),
    ],
    rows: Annotated[
        int | None, typer.Option(help="Rows of the training data to look at, drawn at random (default: all).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same rows.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the same as JSON to this file.")] = None,
) -> None:
    """Before training: does your trainer read the planted canaries whole, and are their secrets in its loss?

    A row a canary: copies planted, found whole, cut by truncation or packing, and in the loss. Exit code 1 where
    something keeps an audit from meaning what it says: a canary that is absent, or that no loss asks for.
    """
    from leakage_tasks.core.atomic import check_place
    from leakage_tasks.training.preflight import preflight

    if output is not None:
        check_place(output)
    found = preflight(_made(trainer), manifest, rows=rows, seed=seed)
    for line in found.lines():
        print(line)
    if output is not None:
        found.write(output)
    raise typer.Exit(1 if any(found.problems()) else 0)


@contextmanager
def _in_one_line(place: str, what: str, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Raise OptionError where the user's own code fails, ``but`` for some errors and ours."""
    from leakage_tasks.core.errors import LeakageError, OptionError
    from leakage_tasks.core.log import first_line

    try:
        yield
    except Exception as error:  # the user's code raises what it likes
        if isinstance(error, (LeakageError, *but)):
            raise
        raise OptionError(
            f"--trainer {place}: {what} failed ({type(error).__name__}: {first_line(error)}): do the same in Python "
            "for the whole traceback"
        ) from error


def _made(place: str) -> Any:
    """What the user's function returns. Raises OptionError for a place without one, or that returns no Trainer."""
    from transformers import Trainer

    from leakage_tasks.core.errors import OptionError

    module, _, name = place.partition(":")
    sys.path.insert(0, "")
    try:
        with _in_one_line(place, f"importing {module}", but=(ImportError, ValueError)):
            found = import_module(module)
        function = getattr(found, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise OptionError(
            f"--trainer {place}: {error}: give MODULE:FUNCTION, as train:make_trainer for make_trainer() in train.py"
        ) from error
    if not callable(function):
        kind = type(function).__name__
        raise OptionError(f"--trainer {place}: {name} is a {kind}: give a function that returns a Trainer")
    with _in_one_line(place, f"{name}()"):
        made = function()
    if not isinstance(made, Trainer):
        raise OptionError(f"--trainer {place}: returned a {type(made).__name__}: return a transformers.Trainer")
    return made

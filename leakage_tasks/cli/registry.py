"""Commands by name: ours, each registered in its own file, and those that installed packages bring."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import typer

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.registry import DISTRIBUTION, Registry, entries_of, package_of

GROUP = "lm_eval_leakage.commands"
AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])


@dataclass(frozen=True)
class Command:
    """A function that becomes a command, or a Typer of several; ``place`` is where the help lists it."""

    function: Callable[..., Any] | typer.Typer
    place: int


COMMANDS: Registry[Command] = Registry("command", "leakage_tasks.cli")
"""Ours."""


def register_command(name: str, place: int) -> Callable[[AnyCommand], AnyCommand]:
    """Register a function as the command of that name, the ``place``-th of the help."""

    def add(function: AnyCommand) -> AnyCommand:
        COMMANDS.register(name, Command(function, place), function)
        return function

    return add


def add_commands(app: typer.Typer) -> None:
    """Add all commands to the command line: ours, then those of entry points in group ``lm_eval_leakage.commands``.

    An entry point names a function or a Typer. One that cannot be imported costs a line on stderr and itself. Raises
    LeakageError for a name that is taken.
    """
    ours = COMMANDS.own()
    for name in sorted(ours, key=lambda name: ours[name].place):
        _add(app, name, ours[name].function)
    taken = dict.fromkeys(ours, DISTRIBUTION)
    for entry in entries_of(GROUP):
        package = package_of(entry)
        if entry.name in taken:
            raise LeakageError(
                f"leakage {entry.name} is a command of {taken[entry.name]} and of {package}: uninstall one of them"
            )
        taken[entry.name] = package
        try:
            found = entry.load()
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"leakage: warning: {entry.name} of {package} cannot be imported ({why})", file=sys.stderr)
            continue
        _add(app, entry.name, found)


def registries() -> Sequence[Registry[Any]]:
    """All that other packages can add to by entry points, commands apart."""
    from leakage_tasks.attacks.registry import ATTACKS
    from leakage_tasks.canaries.presets.registry import PRESETS
    from leakage_tasks.data import FORMATS
    from leakage_tasks.metrics.scoring import SCORINGS
    from leakage_tasks.report.board.outputs import BOARDS
    from leakage_tasks.targets.harness.target import TARGETS

    return ATTACKS, TARGETS, FORMATS, PRESETS, BOARDS, SCORINGS


def _add(app: typer.Typer, name: str, found: Callable[..., Any] | typer.Typer) -> None:
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)

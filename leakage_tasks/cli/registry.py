"""Registry of commands: this package registers each in its own file, other packages through entry points."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import typer

from leakage_tasks.cli.help import STAGES, LeakageCommand, command_help, declared_help
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.registry import DISTRIBUTION, Registry, entries_of, package_of

GROUP = "lm_eval_leakage.commands"
AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])


@dataclass(frozen=True)
class Command:
    """A function that becomes a command, or a Typer with several commands; ``position`` orders the list of a stage."""

    function: Callable[..., Any] | typer.Typer
    position: int


COMMANDS: Registry[Command] = Registry("command", "leakage_tasks.cli")
"""The commands of this package, apart from research."""


def register_command(
    name: str, stage: str, position: int, *, example: str, renamed: Mapping[str, str] | None = None
) -> Callable[[AnyCommand], AnyCommand]:
    """Return a decorator that registers a function as a command.

    Args:
        name: The word after ``leakage``.
        stage: The panel of ``leakage --help`` that lists the command, one of ``STAGES``.
        position: The command's place in that panel.
        example: A command line that is shown in its help and after usage errors.
        renamed: Old spellings of options, which are accepted but not shown, and the present spellings.

    Returns:
        A decorator that returns the function unchanged.
    """
    if stage not in STAGES:
        raise ValueError(f"stage {stage!r} of command {name}: use {', '.join(STAGES)}")

    def add(function: AnyCommand) -> AnyCommand:
        command_help(stage, example=example, renamed=renamed)(function)
        COMMANDS.register(name, Command(function, position), function)
        return function

    return add


def add_commands(app: typer.Typer) -> None:
    """Add all commands to the command line: this package's, then entry points of group ``lm_eval_leakage.commands``.

    An entry point names a function or a Typer. The help lists it under its package, or under the stage that the
    function declares with :func:`~leakage_tasks.cli.help.command_help` and a Typer with ``rich_help_panel``. An entry
    point that cannot be imported is left out with a warning on stderr. Raises LeakageError for a name that is taken.
    """
    ours = COMMANDS.without_plugins()
    for name in sorted(ours, key=lambda name: ours[name].position):
        _add(app, name, ours[name].function, DISTRIBUTION)
    taken = dict.fromkeys(ours, DISTRIBUTION)
    for entry in entries_of(GROUP):
        package = package_of(entry)
        if entry.name in taken:
            raise LeakageError(
                f"leakage {entry.name} is a command of {taken[entry.name]} and of {package}: uninstall one of them"
            )
        taken[entry.name] = package
        try:
            command = entry.load()
        except Exception as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"leakage: warning: {entry.name} of {package} cannot be imported ({why})", file=sys.stderr)
            continue
        _add(app, entry.name, command, package)


def registries() -> Sequence[Registry[Any]]:
    """Return the registries that other packages can add to by entry points, except the one of commands."""
    from leakage_tasks.attacks.registry import ATTACKS
    from leakage_tasks.canaries.presets.registry import PRESETS
    from leakage_tasks.data import FORMATS
    from leakage_tasks.metrics.scoring import SCORINGS
    from leakage_tasks.report.board.outputs import BOARDS
    from leakage_tasks.targets.harness.target import TARGETS

    return ATTACKS, TARGETS, FORMATS, PRESETS, BOARDS, SCORINGS


def _add(app: typer.Typer, name: str, command: Callable[..., Any] | typer.Typer, package: str) -> None:
    usual = f"Commands of {package}"
    if isinstance(command, typer.Typer):
        panel = command.rich_help_panel
        app.add_typer(command, name=name, rich_help_panel=panel if isinstance(panel, str) else usual)
    else:
        panel = declared_help(command).stage or usual
        app.command(name, cls=LeakageCommand, rich_help_panel=panel)(command)

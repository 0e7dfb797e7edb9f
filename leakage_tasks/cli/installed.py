"""Commands that installed packages bring: entry points of the group ``lm_eval_leakage.commands``."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points

import typer

from leakage_tasks.core.errors import LeakageError

GROUP = "lm_eval_leakage.commands"


def add_installed(app: typer.Typer) -> None:
    """Add each: an entry point names a function, which becomes a command, or a Typer of several commands.

    One that cannot be imported costs a line on stderr and itself. Raises LeakageError for a name that is taken.
    """
    names = [each.name for each in app.registered_commands] + [each.name for each in app.registered_groups]
    taken = dict.fromkeys(names, "lm-eval-leakage")
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        package = _package(entry)
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
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=entry.name)
        else:
            app.command(entry.name)(found)


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value

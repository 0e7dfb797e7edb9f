"""``leakage …``: each command is one call into the library, imported when the command runs."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from leakage_tasks.cli.help import LeakageGroup, command_help
from leakage_tasks.core.atomic import REMEDIES
from leakage_tasks.core.encoding import unwritable
from leakage_tasks.core.errors import LeakageError, one_line


def build_app() -> typer.Typer:
    """Return the command line with all its commands, without heavy imports."""
    from leakage_tasks.cli.registry import add_commands

    app = typer.Typer(
        name="leakage",
        cls=LeakageGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        add_completion=False,
    )
    app.callback()(_options)
    add_commands(app)
    return app


def main() -> None:
    """Run ``leakage``.

    Errors that the user can correct are one line on stderr and exit code 2; Ctrl-C is exit code 130.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names from files may hold characters that the terminal's encoding lacks.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        build_app()()
    except LeakageError as error:
        print(f"leakage: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except OSError as error:
        path = f"{error.filename}: " if error.filename else ""
        remedy = REMEDIES.get(error.errno or 0, "check the path")
        print(f"leakage: {one_line(f'{path}{error.strerror or error}: {remedy}')}", file=sys.stderr)
        raise SystemExit(2) from None
    except UnicodeEncodeError as error:
        print(f"leakage: {one_line(unwritable(error, sys.argv[1:]))}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _show_version(requested: bool) -> None:
    if requested:
        from leakage_tasks.core.version import __version__

        print(f"lm-eval-leakage {__version__}")
        raise typer.Exit


@command_help(example="leakage demo")
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Measure how much of its training data can be extracted from a model.

    Plant canaries, train, run lm_eval and read the report.
    """

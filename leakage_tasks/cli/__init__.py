"""``leakage …``: each command is one call into the library, imported when it is run."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from leakage_tasks.core.encoding import unwritable
from leakage_tasks.core.errors import LeakageError, one_line


class _Commands(TyperGroup):
    """Commands whose usage errors a terminal can show, whatever was typed."""

    def make_context(self, *words: Any, **extra: Any) -> Any:
        with _shown():
            return super().make_context(*words, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _shown():
            return super().invoke(ctx)


@contextmanager
def _shown() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Errors of the command line's parser have one; that of other libraries' may be read alone.
        if isinstance(vars(error).get("message"), str):
            error.message = one_line(error.message)  # type: ignore[attr-defined]
        raise


def build_app() -> typer.Typer:
    """Return the command line with all its commands; imports nothing heavy."""
    from leakage_tasks.cli.registry import add_commands

    app = typer.Typer(
        name="leakage",
        cls=_Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        add_completion=False,
    )
    app.callback()(_options)
    add_commands(app)
    return app


def main() -> None:
    """Run ``leakage``; what the user can put right is one line on stderr and exit code 2, Ctrl-C is 130."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names from elsewhere may hold what the terminal's encoding, or any, has no form for.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        build_app()()
    except LeakageError as error:
        print(f"leakage: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"leakage: {one_line(f'{place}{error.strerror or error}: check the path')}", file=sys.stderr)
        raise SystemExit(2) from None
    except UnicodeEncodeError as error:
        print(f"leakage: {one_line(unwritable(error, sys.argv[1:]))}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _show_version(wanted: bool) -> None:
    if wanted:
        from leakage_tasks.core.version import __version__

        print(f"lm-eval-leakage {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Plant canaries, train, and see how much of the training data can be got out of the model again."""

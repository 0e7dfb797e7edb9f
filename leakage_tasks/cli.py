"""``leakage …``: each command is one call into the library, imported when it is run."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from leakage_tasks.errors import LeakageError


def build_app() -> typer.Typer:
    """Return the command line with all its commands; imports nothing heavy."""
    from leakage_tasks.canaries.commands import canaries_command, plant_command, verify_command
    from leakage_tasks.lab.demo import demo_command
    from leakage_tasks.lab.nlu_command import train_nlu_command
    from leakage_tasks.lab.nlu_data_command import nlu_data_command
    from leakage_tasks.lab.quantize_command import quantize_command
    from leakage_tasks.lab.sanitize_command import sanitize_command
    from leakage_tasks.lab.showcase import showcase_command
    from leakage_tasks.lab.tune_command import tune_command
    from leakage_tasks.report.card_command import card_command
    from leakage_tasks.report.check_command import check_command
    from leakage_tasks.report.compare_command import compare_command
    from leakage_tasks.report.leaderboard_command import leaderboard_command
    from leakage_tasks.report.plot_command import plot_app
    from leakage_tasks.report.power_command import power_command
    from leakage_tasks.report.score_command import score_command
    from leakage_tasks.selftest.command import selftest_command
    from leakage_tasks.studies.commands import study_app

    app = typer.Typer(
        name="leakage",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        add_completion=False,
    )
    app.callback()(_options)
    app.command("canaries")(canaries_command)
    app.command("plant")(plant_command)
    app.command("verify")(verify_command)
    app.command("tune-prompt")(tune_command)
    app.command("train-nlu")(train_nlu_command)
    app.command("nlu-data")(nlu_data_command)
    app.command("sanitize")(sanitize_command)
    app.command("quantize")(quantize_command)
    app.command("leaderboard")(leaderboard_command)
    app.command("card")(card_command)
    app.command("score")(score_command)
    app.command("power")(power_command)
    app.command("compare")(compare_command)
    app.command("check")(check_command)
    app.command("demo")(demo_command)
    app.command("showcase")(showcase_command)
    app.command("selftest")(selftest_command)
    app.command("doctor")(_doctor)
    app.add_typer(plot_app(), name="plot", help="Pictures of what was found, as PNG and SVG.")
    app.add_typer(study_app(), name="study", help="Each paper's tables as something to run.")
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
        print(f"leakage: {place}{error.strerror or error}: check the path", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _show_version(wanted: bool) -> None:
    if wanted:
        from leakage_tasks import __version__

        print(f"lm-eval-leakage {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Plant canaries, train, and see how much of the training data can be got out of the model again."""


def _doctor() -> None:
    """Check that everything works here, end to end; say what to do where it does not."""
    from leakage_tasks.doctor import doctor

    raise typer.Exit(doctor())

"""``leakage plot``: draw plots of saved results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.help import REPORT, CommandList, LeakageCommand, command_help
from leakage_tasks.cli.registry import COMMANDS, Command
from leakage_tasks.cli.shared_options import output_option
from leakage_tasks.core.atomic import check_place
from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.plots.style import KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Sources = Annotated[
    list[Path],
    typer.Argument(help="Results files of lm_eval with --log_samples, files of samples, or folders with such files."),
]


def _paths(output: Path) -> list[Path]:
    return [output] if output.suffix else [output.with_suffix(kind) for kind in KINDS]


def _check_output(output: Path) -> Path:
    if output.is_dir():
        raise OptionError(f"--output {output}: is a folder: give a file, such as plot.png")
    if output.suffix.lower() not in ("", *KINDS):
        raise OptionError(
            f"--output {output}: use a name that ends in {' or '.join(KINDS)}, or a name without an ending for both"
        )
    for path in _paths(output):
        check_place(path)
    return output


def _write(figure: Figure, output: Path) -> None:
    from leakage_tasks.report.plots.style import save

    for path in _paths(output):
        typer.echo(f"wrote {save(figure, path)}")


Output = Annotated[
    Path, output_option("Picture to write, .png or .svg; both if the name has neither ending.", _check_output)
]
APP = typer.Typer(
    cls=CommandList,
    help="Draw plots of results as PNG or SVG.",
    rich_help_panel=REPORT,
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
"""The commands under ``leakage plot``."""


@APP.command("epochs", cls=LeakageCommand)
@command_help(example="leakage plot epochs runs/demo/exposure_by_epoch.json -o epochs.png")
def epochs_command(sources: Sources, output: Output) -> None:
    """Draw exposure over training.

    SOURCES is the demo's exposure_by_epoch.json, or one run for each checkpoint, in order of training.
    """
    from leakage_tasks.report.load.training_log import read_history
    from leakage_tasks.report.plots.exposure import draw_epochs
    from leakage_tasks.report.plots.findings import epochs_of

    history = [path for path in sources if path.suffix == ".json" and not path.name.startswith("results_")]
    if history and len(sources) > 1:
        raise OptionError(
            f"{history[0]}: is a history of epochs, which has a plot of its own: leave the other sources out"
        )
    if history:
        _write(draw_epochs(read_history(history[0])), output)
    else:
        _write(draw_epochs(epochs_of(sources), words="checkpoint"), output)


@APP.command("repetitions", cls=LeakageCommand)
@command_help(example="leakage plot repetitions results -o repetitions.png")
def repetitions_command(sources: Sources, output: Output) -> None:
    """Draw exposure and extraction against repetition counts.

    Several runs are drawn side by side.
    """
    from leakage_tasks.report.plots.findings import repetitions_of
    from leakage_tasks.report.plots.repetitions import draw_repetitions

    _write(draw_repetitions(repetitions_of(sources)), output)


@APP.command("histogram", cls=LeakageCommand)
@command_help(example="leakage plot histogram results -o histogram.png")
def histogram_command(
    sources: Sources,
    output: Output,
    canary: Annotated[
        list[str] | None,
        typer.Option(
            help="Id of a canary to draw; repeatable (default: the most and the least exposed, and a control)."
        ),
    ] = None,
) -> None:
    """Draw the cost of the secret among the costs of random fillings.

    Needs runs with --metadata histogram=…. The curve is a skew-normal fit.
    """
    from leakage_tasks.report.plots.findings import costs_of
    from leakage_tasks.report.plots.histogram import draw_histogram

    _write(draw_histogram(costs_of(sources, canary or [])), output)


@APP.command("recall", cls=LeakageCommand)
@command_help(example="leakage plot recall results -o recall.png")
def recall_command(sources: Sources, output: Output) -> None:
    """Draw recall against the number of wrong guesses allowed.

    There is one line for each confidence score, or for each run if there are several runs.
    """
    from leakage_tasks.report.plots.findings import recall_of
    from leakage_tasks.report.plots.recall import draw_recall

    _write(draw_recall(recall_of(sources)), output)


@APP.command("prefixes", cls=LeakageCommand)
@command_help(example="leakage plot prefixes results -o prefixes.png")
def prefixes_command(sources: Sources, output: Output) -> None:
    """Draw memorization against the length of the prefix.

    Needs runs of memorization, such as with --metadata prefix=25:50:100.
    """
    from leakage_tasks.report.plots.findings import prefixes_of
    from leakage_tasks.report.plots.prefixes import draw_prefixes

    _write(draw_prefixes(prefixes_of(sources)), output)


@APP.command("runs", cls=LeakageCommand)
@command_help(example="leakage plot runs results -o runs.png")
def runs_command(sources: Sources, output: Output) -> None:
    """Draw the share of written texts with a run of training text.

    Needs runs of untargeted_extraction. The horizontal axis is the length of the run in tokens.
    """
    from leakage_tasks.report.plots.runs import draw_runs, runs_of

    _write(draw_runs(runs_of(sources)), output)


@APP.command("training", cls=LeakageCommand)
@command_help(example="leakage plot training output_dir -o training.png")
def training_command(
    source: Annotated[
        Path,
        typer.Argument(help="trainer_state.json, the output_dir of a Trainer, or the demo's exposure_by_epoch.json."),
    ],
    output: Output,
    steps: Annotated[bool, typer.Option("--steps", help="Show steps on the horizontal axis, not epochs.")] = False,
) -> None:
    """Draw losses and exposure over one training run.

    The run is one of the demo, or of a Trainer with an ExposureCallback.
    """
    from leakage_tasks.report.load.training_log import read_curves
    from leakage_tasks.report.plots.training import draw_training

    _write(draw_training(read_curves(source, "step" if steps else "epoch")), output)


@APP.command("trade", cls=LeakageCommand)
@command_help(example="leakage plot trade results --up HDT -o trade.png")
def trade_command(
    sources: Annotated[list[Path], typer.Argument(help="Results files of lm_eval, or folders with such files.")],
    output: Output,
    across: Annotated[
        str | None, typer.Option(help="Title of the column of usefulness (default: the first of the leaderboard).")
    ] = None,
    up: Annotated[
        str | None, typer.Option(help="Title of the column of leakage (default: the first of the leaderboard).")
    ] = None,
    group: Annotated[int, typer.Option(help="Number of the group of comparable runs, as in the leaderboard.")] = 1,
) -> None:
    """Draw usefulness against leakage, with the Pareto front.

    Titles are those of leakage leaderboard --all, without unit and arrow.
    """
    from leakage_tasks.report.board.board import make_board
    from leakage_tasks.report.board.front import choose_trade
    from leakage_tasks.report.load.results import read_runs
    from leakage_tasks.report.plots.trade import draw_trade

    _write(draw_trade(choose_trade(make_board(read_runs(sources)), across, up, group)), output)


COMMANDS.register("plot", Command(APP, 5), epochs_command)

"""``leakage plot``: saved findings in, a picture out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.registry import COMMANDS, Command
from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.plots.style import KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Sources = Annotated[
    list[Path],
    typer.Argument(help="Results files of lm_eval with --log_samples, files of samples, or folders of them."),
]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="Picture to write, .png or .svg; without either ending, both.")
]


def epochs_command(sources: Sources, output: Output) -> None:
    """Exposure over training: from the demo's exposure_by_epoch.json, or a run a checkpoint in the order given."""
    paths = _checked(output)
    from leakage_tasks.report.load.training_log import read_history
    from leakage_tasks.report.plots.exposure import draw_epochs
    from leakage_tasks.report.plots.findings import epochs_of

    history = [path for path in sources if path.suffix == ".json" and not path.name.startswith("results_")]
    if history and len(sources) > 1:
        raise OptionError(f"{history[0]}: is a history of epochs and is drawn by itself: leave the other sources out")
    if history:
        _write(draw_epochs(read_history(history[0])), paths)
    else:
        _write(draw_epochs(epochs_of(sources), words="checkpoint, in the order given"), paths)


def repetitions_command(sources: Sources, output: Output) -> None:
    """Exposure against how often a canary was planted, runs side by side, and the share extracted beside it."""
    paths = _checked(output)
    from leakage_tasks.report.plots.findings import repetitions_of
    from leakage_tasks.report.plots.repetitions import draw_repetitions

    _write(draw_repetitions(repetitions_of(sources)), paths)


def histogram_command(
    sources: Sources,
    output: Output,
    canary: Annotated[
        list[str] | None,
        typer.Option(help="A canary to draw, by its id; repeatable (default: most and least exposed, and a control)."),
    ] = None,
) -> None:
    """Costs of random fillings with a skew-normal fit, and where the secret lies: runs with histogram=… alone."""
    paths = _checked(output)
    from leakage_tasks.report.plots.findings import costs_of
    from leakage_tasks.report.plots.histogram import draw_histogram

    _write(draw_histogram(costs_of(sources, canary or [])), paths)


def recall_command(sources: Sources, output: Output) -> None:
    """Recall against wrong guesses allowed: a line a confidence, or a run where there are several."""
    paths = _checked(output)
    from leakage_tasks.report.plots.findings import recall_of
    from leakage_tasks.report.plots.recall import draw_recall

    _write(draw_recall(recall_of(sources)), paths)


def training_command(
    source: Annotated[
        Path,
        typer.Argument(help="trainer_state.json, the output_dir of a Trainer, or the demo's exposure_by_epoch.json."),
    ],
    output: Output,
    steps: Annotated[bool, typer.Option("--steps", help="Count steps along the horizontal axis, not epochs.")] = False,
) -> None:
    """Losses and exposure over one training run: from the log of a Trainer with an ExposureCallback."""
    paths = _checked(output)
    from leakage_tasks.report.load.training_log import read_curves
    from leakage_tasks.report.plots.training import draw_training

    _write(draw_training(read_curves(source, "step" if steps else "epoch")), paths)


def _checked(output: Path) -> list[Path]:
    """The files to write, all of which can be as far as can be told. Raises LeakageError."""
    from leakage_tasks.core.atomic import check_place

    if output.is_dir():
        raise OptionError(f"--output {output}: is a folder: name a file in it")
    if output.suffix.lower() not in ("", *KINDS):
        raise OptionError(f"--output {output}: let it end in {' or '.join(KINDS)}, or in neither for both")
    paths = [output] if output.suffix else [output.with_suffix(kind) for kind in KINDS]
    for path in paths:
        check_place(path)
    return paths


def _write(figure: Figure, paths: list[Path]) -> None:
    from leakage_tasks.report.plots.style import save

    for path in paths:
        typer.echo(f"wrote {save(figure, path)}")


def plot_app() -> typer.Typer:
    """The commands under ``leakage plot``."""
    app = typer.Typer(
        help="Pictures of what was found, as PNG and SVG.",
        no_args_is_help=True,
        rich_markup_mode=None,
        add_completion=False,
    )
    app.command("epochs")(epochs_command)
    app.command("repetitions")(repetitions_command)
    app.command("histogram")(histogram_command)
    app.command("recall")(recall_command)
    app.command("training")(training_command)
    return app


COMMANDS.register("plot", Command(plot_app(), 18), plot_app)

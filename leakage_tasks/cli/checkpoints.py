"""``leakage checkpoints``: audit every checkpoint of a training run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.help import AUDIT
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import DEVICE, BatchSize, Device, Model, read_values, writable
from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.plots.style import KINDS


def _check_plot(plot: Path | None) -> Path | None:
    if plot is not None and plot.suffix.lower() not in KINDS:
        raise OptionError(f"--plot {plot}: use a name that ends in {' or '.join(KINDS)}")
    return writable(plot)


@register_command(
    "checkpoints",
    AUDIT,
    8,
    example="leakage checkpoints out --metadata canaries=canaries.jsonl",
)
def checkpoints_command(
    folder: Annotated[Path, typer.Argument(help="Output folder of a training run, with its checkpoint-… folders.")],
    options: Annotated[
        list[str] | None, typer.Argument(help="Further options of lm_eval, after --, as in -- --apply_chat_template.")
    ] = None,
    tasks: Annotated[str, typer.Option(help="Tasks, as for lm_eval, separated by commas.")] = "canary_exposure",
    metadata: Annotated[
        str, typer.Option(help="Options of the tasks, as for lm_eval: canaries=canaries.jsonl,… or a JSON object.")
    ] = "",
    base: Annotated[
        str | None,
        typer.Option(
            help="Model before training: audited as step 0; adapters are loaded on it (default: the model "
            "that the adapter names, without step 0)."
        ),
    ] = None,
    model: Model = "hf",
    model_args: Annotated[
        str,
        typer.Option(
            "--model_args", "--model-args", help="Further arguments of the model, as for lm_eval: dtype=float32"
        ),
    ] = "",
    device: Device = DEVICE,
    batch_size: BatchSize = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the results (default: the folder leakage in FOLDER)."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            callback=_check_plot,
            help="Plot to write, .png or .svg (default: checkpoints.png in the folder for the results).",
        ),
    ] = None,
) -> None:
    """Audit every checkpoint of a training run.

    Writes a table and a plot over steps. Each checkpoint is a run of lm_eval; finished checkpoints are not run again.
    Exit code 1 if a checkpoint could not be audited.
    """
    from leakage_tasks.api.checkpoints import CheckpointSettings, audit_checkpoints, check_any
    from leakage_tasks.report.board.steps import read_steps, steps_text
    from leakage_tasks.report.plots.steps import draw_steps
    from leakage_tasks.report.plots.style import save

    values = read_values(model_args, "--model_args")
    for name in {"pretrained", "peft"} & values.keys():
        raise OptionError(f"--model_args {name}=…: each checkpoint is the model: leave it out, or use --base")
    running = [
        *(["--device", device] if device != DEVICE else ()),
        *(["--batch_size", batch_size] if batch_size else ()),
    ]
    settings = CheckpointSettings(
        tasks, read_values(metadata, "--metadata"), model, values, base, [*running, *(options or [])]
    )
    place = output or folder / "leakage"
    audits = audit_checkpoints(folder, place, settings, lambda line: typer.echo(line, err=True))
    check_any(audits)
    steps = read_steps(
        [(audit.checkpoint.step, audit.checkpoint.name, audit.results) for audit in audits if audit.failure is None]
    )
    typer.echo(steps_text(steps))
    typer.echo(f"wrote {save(draw_steps(steps.panels()), plot or place / 'checkpoints.png')}")
    if any(audit.failure is not None for audit in audits):
        raise typer.Exit(1)

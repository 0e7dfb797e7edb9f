"""``leakage plan``: estimate the memory and time of an audit."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr
from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.help import AUDIT
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import (
    DEVICE,
    BatchSize,
    Device,
    JsonOutput,
    MaxBatchSize,
    Model,
    ModelArgs,
    read_values,
)


@register_command("plan", AUDIT, 1, example="leakage plan canaries.jsonl --model_args pretrained=./model")
def plan_command(
    manifest: Annotated[Path, typer.Argument(help="Manifest of the canaries.")],
    model: Model = "hf",
    model_args: ModelArgs = "",
    tasks: Annotated[
        str, typer.Option(help="canary_exposure, canary_extraction, or both, separated by a comma.")
    ] = "canary_exposure,canary_extraction",
    pilot: Annotated[
        int,
        typer.Option(help="Number of canaries of each kind to attack, to measure the cost of one; 0 skips the pilot."),
    ] = 5,
    pilot_seconds: Annotated[
        float,
        typer.Option(
            "--pilot_seconds", "--pilot-seconds", help="Upper limit on the seconds of all attacks of the pilot."
        ),
    ] = 120.0,
    metadata: Annotated[
        str, typer.Option(help="Options of the tasks, as for lm_eval: budget=2000,… or a JSON object.")
    ] = "",
    apply_chat_template: Annotated[
        bool,
        typer.Option(
            "--apply_chat_template", "--apply-chat-template", help="Canaries are turns of a chat, as for lm_eval."
        ),
    ] = False,
    system_instruction: Annotated[
        str | None,
        typer.Option(
            "--system_instruction", "--system-instruction", help="System message of the chat, as for lm_eval."
        ),
    ] = None,
    device: Device = DEVICE,
    batch_size: BatchSize = None,
    max_batch_size: MaxBatchSize = None,
    output: JsonOutput = None,
) -> None:
    """Estimate the memory and time of an audit before you start it.

    The table also has forward passes and tokens, for each task, attack and kind of canary.
    """
    from leakage_tasks.planning.pilot import check_number
    from leakage_tasks.planning.plan import make_plan, planned_tasks
    from leakage_tasks.planning.report import row_text, table, write_report
    from leakage_tasks.planning.watch import PilotWatch
    from leakage_tasks.selftest.run import load_model

    check_number(pilot)
    watch = PilotWatch(pilot_seconds, sys.stderr, row_text)
    options = read_values(metadata, "--metadata")
    names = [name.strip() for name in tasks.split(",") if name.strip()]
    chat = {"apply_chat_template": apply_chat_template, "system_instruction": system_instruction}
    # A large model takes minutes to load, so wrong options and manifests are reported first.
    planned = planned_tasks(names, str(manifest), options, chat)
    lm = load_model(model, model_args, batch_size, max_batch_size, device, "plan")
    # Hides the harness' progress bars, one for each request.
    with redirect_stderr(io.StringIO()):
        plan = make_plan(lm, planned, pilot, watch)
    print(table(plan))
    if output is not None:
        arguments = {"model": model, "model_args": model_args, "batch_size": batch_size, "device": device}
        write_report(output, plan, {**arguments, **chat, "tasks": names, "metadata": options, "pilot": pilot})

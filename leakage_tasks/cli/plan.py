"""``leakage plan``: a manifest and a model in, what a run will take out."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr
from pathlib import Path
from typing import Annotated, Any

import typer

from leakage_tasks.cli.model_options import DEVICE, BatchSize, Device, JsonOutput, MaxBatchSize, Model, ModelArgs
from leakage_tasks.cli.registry import register_command


@register_command("plan", 13)
def plan_command(
    manifest: Annotated[Path, typer.Argument(help="The canaries' manifest.")],
    model: Model = "hf",
    model_args: ModelArgs = "",
    tasks: Annotated[
        str, typer.Option(help="canary_exposure, canary_extraction, or both.")
    ] = "canary_exposure,canary_extraction",
    pilot: Annotated[
        int, typer.Option(help="Canaries of each kind that are attacked to know what the others take; 0 for none.")
    ] = 5,
    pilot_seconds: Annotated[
        float, typer.Option("--pilot_seconds", "--pilot-seconds", help="The time that all attacks of the pilot take.")
    ] = 120.0,
    metadata: Annotated[str, typer.Option(help="As for lm_eval: budget=2000, as words or JSON.")] = "",
    apply_chat_template: Annotated[
        bool,
        typer.Option("--apply_chat_template", "--apply-chat-template", help="As for lm_eval: canaries are turns."),
    ] = False,
    system_instruction: Annotated[
        str | None, typer.Option("--system_instruction", "--system-instruction", help="As for lm_eval, in a chat.")
    ] = None,
    device: Device = DEVICE,
    batch_size: BatchSize = None,
    max_batch_size: MaxBatchSize = None,
    output: JsonOutput = None,
) -> None:
    """Say before a run what it will take: passes, tokens, memory and time, by task, attack and kind of canary."""
    from leakage_tasks.core.atomic import check_place
    from leakage_tasks.planning.pilot import check_number
    from leakage_tasks.planning.plan import make_plan
    from leakage_tasks.planning.report import row_text, table, write_report
    from leakage_tasks.planning.watch import PilotWatch
    from leakage_tasks.selftest.run import load_model

    check_number(pilot)
    watch = PilotWatch(pilot_seconds, sys.stderr, row_text)
    given = _metadata(metadata)
    if output is not None:
        check_place(output)
    names = [name.strip() for name in tasks.split(",") if name.strip()]
    chat = {"apply_chat_template": apply_chat_template, "system_instruction": system_instruction}
    lm = load_model(model, model_args, batch_size, max_batch_size, device, "plan")
    # The harness' own progress bars, one for each question it is asked, stay off the terminal.
    with redirect_stderr(io.StringIO()):
        found = make_plan(lm, str(manifest), names, given, pilot, watch, chat)
    print(table(found))
    if output is not None:
        asked = {"model": model, "model_args": model_args, "batch_size": batch_size, "device": device}
        write_report(output, found, {**asked, **chat, "tasks": names, "metadata": given, "pilot": pilot})


def _metadata(text: str) -> dict[str, Any]:
    """What ``--metadata`` says. Raises OptionError."""
    from leakage_tasks.core.errors import OptionError
    from leakage_tasks.harness.plugin import metadata_words

    if not text:
        return {}
    try:
        found = metadata_words(text)
    except Exception:
        raise OptionError(f"--metadata {text}: neither name=value,… nor a JSON object: correct it") from None
    if not isinstance(found, dict):
        raise OptionError(f"--metadata {text}: expected a JSON object: correct it")
    return found

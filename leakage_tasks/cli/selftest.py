"""``leakage selftest``: check the measurements on a model and print a table."""

from __future__ import annotations

import dataclasses
import time
from typing import Annotated

import typer

from leakage_tasks.cli.help import AUDIT
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import DEVICE, BatchSize, Device, JsonOutput, MaxBatchSize, Model, ModelArgs


@register_command("selftest", AUDIT, 2, example="leakage selftest --model_args pretrained=./model --device cpu")
def selftest_command(
    model: Model = "hf",
    model_args: ModelArgs = "",
    device: Device = DEVICE,
    batch_size: BatchSize = None,
    max_batch_size: MaxBatchSize = None,
    template: Annotated[
        str | None,
        typer.Option(help="Canary text with slots, such as 'My pin is {digits:6}.' (default: a built-in sentence)."),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Source sentence for translation models (default: a built-in sentence).")
    ] = None,
    canaries: Annotated[
        int, typer.Option(help="Number of random secrets, never planted; more secrets reveal smaller errors.")
    ] = 32,
    samples: Annotated[
        int, typer.Option(help="Number of random fillings scored for each secret, to check its rank.")
    ] = 128,
    budget: Annotated[int, typer.Option(help="Upper limit on the sequences scored to estimate one rank.")] = 4000,
    seed: Annotated[int, typer.Option(help="Random seed of the canaries.")] = 0,
    output: JsonOutput = None,
) -> None:
    """Check that the measurements are right on your own model.

    Secrets that were never planted must be at chance, estimated ranks must agree with a uniform sample, fast scoring
    must agree with the harness, and batching must not change results. Exit code 1 if a check fails.
    """
    from leakage_tasks.selftest.rows import BROKEN, table
    from leakage_tasks.selftest.run import load_model, run_checks, summary, write_report
    from leakage_tasks.selftest.subject import SelfTestSettings

    settings = SelfTestSettings(template, source, canaries, samples, budget, seed)
    started = time.monotonic()
    rows = run_checks(load_model(model, model_args, batch_size, max_batch_size, device), settings)
    print(table(rows))
    print(summary(rows))
    if output is not None:
        arguments = {"model": model, "model_args": model_args, "batch_size": batch_size, "device": device}
        write_report(output, rows, {**arguments, **dataclasses.asdict(settings), "seconds": time.monotonic() - started})
    raise typer.Exit(1 if any(row.verdict == BROKEN for row in rows) else 0)

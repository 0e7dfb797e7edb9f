"""``leakage selftest``: options in, a table out."""

from __future__ import annotations

import dataclasses
import time
from typing import Annotated

import typer

from leakage_tasks.cli.model_options import DEVICE, BatchSize, Device, JsonOutput, MaxBatchSize, Model, ModelArgs
from leakage_tasks.cli.registry import register_command


@register_command("selftest", 14)
def selftest_command(
    model: Model = "hf",
    model_args: ModelArgs = "",
    device: Device = DEVICE,
    batch_size: BatchSize = None,
    max_batch_size: MaxBatchSize = None,
    template: Annotated[
        str | None, typer.Option(help="Canary text with slots, such as 'My pin is {digits:6}.' (default: a sentence).")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Source sentence for translation models (default: one).")] = None,
    canaries: Annotated[int, typer.Option(help="Fresh, never planted secrets: more see smaller faults.")] = 32,
    samples: Annotated[int, typer.Option(help="Random fillings scored for each, to hold its rank against.")] = 128,
    budget: Annotated[int, typer.Option(help="The most sequences an estimate of one rank may take.")] = 4000,
    seed: Annotated[int, typer.Option(help="Same seed, same canaries.")] = 0,
    output: JsonOutput = None,
) -> None:
    """Check on your own model that what is measured there holds; exit code 1 if something does not.

    Never planted secrets are at chance, estimates agree with a uniform sample, fast scoring is the harness' own, and
    batches change nothing.
    """
    from leakage_tasks.core.atomic import check_place
    from leakage_tasks.selftest.rows import BROKEN, table
    from leakage_tasks.selftest.run import load_model, run_checks, summary, write_report
    from leakage_tasks.selftest.subject import SelfTestSettings

    settings = SelfTestSettings(template, source, canaries, samples, budget, seed)
    if output is not None:
        check_place(output)
    started = time.monotonic()
    rows = run_checks(load_model(model, model_args, batch_size, max_batch_size, device), settings)
    print(table(rows))
    print(summary(rows))
    if output is not None:
        asked = {"model": model, "model_args": model_args, "batch_size": batch_size, "device": device}
        write_report(output, rows, {**asked, **dataclasses.asdict(settings), "seconds": time.monotonic() - started})
    raise typer.Exit(1 if any(row.verdict == BROKEN for row in rows) else 0)

"""Options shared by commands that load a model through the harness."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEVICE = "cuda:0"
"""The default of ``lm_eval``, which falls back to the CPU on machines without a GPU."""
Model = Annotated[str, typer.Option("--model", help="Kind of model, as for lm_eval: hf, classifier-scorer, vllm, …")]
ModelArgs = Annotated[
    str,
    typer.Option(
        "--model_args", "--model-args", help="Arguments of the model, as for lm_eval: pretrained=./mine,dtype=float32"
    ),
]
Device = Annotated[str, typer.Option(help="Device, as for lm_eval: cpu, cuda, cuda:1, …")]
BatchSize = Annotated[
    str | None, typer.Option("--batch_size", "--batch-size", help="Batch size, as for lm_eval: a number, or auto.")
]
MaxBatchSize = Annotated[
    int | None,
    typer.Option("--max_batch_size", "--max-batch-size", help="Upper limit for --batch_size auto, as for lm_eval."),
]
JsonOutput = Annotated[
    Path | None, typer.Option("--output", "-o", help="Also write the results to this file, as JSON.")
]

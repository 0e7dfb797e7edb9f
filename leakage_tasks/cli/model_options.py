"""Options of the commands that load a model as the harness does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEVICE = "cuda:0"
"""What the harness' own command line asks for where its user asks for nothing; without one it takes the CPU."""
Model = Annotated[str, typer.Option("--model", help="As for lm_eval: hf, classifier-scorer, vllm, …")]
ModelArgs = Annotated[
    str, typer.Option("--model_args", "--model-args", help="As for lm_eval: pretrained=./mine,dtype=float32")
]
Device = Annotated[str, typer.Option(help="As for lm_eval: cpu, cuda, cuda:1, …")]
BatchSize = Annotated[
    str | None, typer.Option("--batch_size", "--batch-size", help="As for lm_eval: a number, or auto.")
]
MaxBatchSize = Annotated[
    int | None, typer.Option("--max_batch_size", "--max-batch-size", help="As for lm_eval, with auto.")
]
JsonOutput = Annotated[Path | None, typer.Option("--output", "-o", help="Write the same as JSON to this file.")]

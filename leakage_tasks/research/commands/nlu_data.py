"""``leakage nlu-data``: a generated NLU data set for users without data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def nlu_data_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to create, with train, valid and test in it.")],
    count: Annotated[int, typer.Option(help="Utterances in train.")] = 4000,
    seed: Annotated[int, typer.Option(help="Random seed of the utterances.")] = 0,
) -> None:
    """Write a generated NLU data set: utterances with intents and slots that 'leakage train-nlu' can learn."""
    from leakage_tasks.research.victims.nlu_grammar import write_nlu_data

    write_nlu_data(output, count=count, seed=seed)
    typer.echo(f"{output}: {count:,} utterances in train, others in valid and test")

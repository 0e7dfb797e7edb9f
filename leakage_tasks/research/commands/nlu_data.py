"""``leakage nlu-data``: generate a dataset of utterances with intents and slots."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.help import RESEARCH, command_help


@command_help(RESEARCH, example="leakage nlu-data -o utterances --count 4000")
def nlu_data_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to create, with train, valid and test.")],
    count: Annotated[int, typer.Option(help="Number of utterances in train.")] = 4000,
    seed: Annotated[int, typer.Option(help="Random seed of the utterances.")] = 0,
) -> None:
    """Generate utterances with intents and slots.

    A grammar makes the utterances, as training data for 'leakage train-nlu'.
    """
    from leakage_tasks.research.victims.nlu_grammar import write_nlu_data

    write_nlu_data(output, count=count, seed=seed)
    typer.echo(f"{output}: {count:,} utterances in train, others in valid and test")

"""``leakage nlu-data``: the generated NLU set, for those who have no data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def nlu_data_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to make, with train, valid and test in it.")],
    count: Annotated[int, typer.Option(help="Utterances in train.")] = 4000,
    seed: Annotated[int, typer.Option(help="Same seed, same utterances.")] = 0,
) -> None:
    """Write utterances with intents and slots, made by a grammar: something for 'leakage train-nlu' to learn."""
    from leakage_tasks.research.victims.nlu_grammar import write_nlu_data

    write_nlu_data(output, count=count, seed=seed)
    typer.echo(f"{output}: {count:,} utterances in train, others in valid and test")

"""``leakage index``: make the index of a corpus in which ``untargeted_extraction`` searches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.help import PREPARE
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import TextColumn


@register_command("index", PREPARE, 8, example="leakage index train.jsonl -o index --tokenizer ./model")
def index_command(
    corpus: Annotated[
        str,
        typer.Argument(
            help="Training text: a file, a folder of files, a folder saved by 'datasets', or hub:owner/name."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder for the index.")],
    tokenizer: Annotated[str, typer.Option(help="Tokenizer of the model: a folder or a hub name.")],
    text_column: TextColumn = "text",
    split: Annotated[
        str | None,
        typer.Option(help="Split to index (default: all splits of a saved folder, train of a hub data set)."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Number of processes that sort parts of the corpus.")] = 1,
) -> None:
    """Index training text, to find it in what a model writes.

    Use the folder as data= or controls= of the task untargeted_extraction. Sorting takes about 2 GB of memory for each
    process, whatever the size of the corpus.
    """
    from leakage_tasks.pairs.index.build import write_index
    from leakage_tasks.pairs.index.corpus import IndexSource

    about = write_index(IndexSource(corpus, tokenizer, text_column, split), output, jobs)
    print(f"{output}: {about.tokens:,} tokens of {about.documents:,} documents, corpus {about.corpus[:16]}")

"""``leakage score-guesses``: score guesses of suffixes made by any attack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.help import AUDIT
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import Data, JsonOutput, PrefixLength, SuffixLength, TextColumn, read_pairs


@register_command(
    "score-guesses", AUDIT, 7, example="leakage score-guesses guesses.csv --data pairs.jsonl --split test"
)
def score_guesses_command(
    guesses: Annotated[
        list[Path],
        typer.Argument(
            help="CSV of the Training Data Extraction Challenge, 'Example ID,Suffix Guess', most confident guess first."
        ),
    ],
    data: Data,
    split: Annotated[
        str | None,
        typer.Option(
            help="train, validation, test or all; an id is the position of a pair in the split, from 0 (default: test, "
            "or all with --stride)."
        ),
    ] = None,
    prefix_length: PrefixLength = None,
    suffix_length: SuffixLength = None,
    tokenizer: Annotated[str | None, typer.Option(help="Tokenizer, if --data holds text.")] = None,
    text_column: TextColumn = "text",
    stride: Annotated[
        int | None,
        typer.Option(help="Number of tokens between two windows of text, if suffix_extraction ran with stride=…."),
    ] = None,
    wrong: Annotated[
        int | None,
        typer.Option(
            help="Number of wrong guesses allowed (default: 100 for 1,000 pairs or more, else a tenth of the pairs)."
        ),
    ] = None,
    output: JsonOutput = None,
) -> None:
    """Score guesses of suffixes made by any attack.

    Prints recall and early-stop recall for each file, and the differences between files. The format is that of the
    challenge, which suffix_extraction writes with guesses=FILE.
    """
    import json

    from leakage_tasks.core.atomic import write_text
    from leakage_tasks.core.stable_inputs import unchanged
    from leakage_tasks.pairs.source import default_split
    from leakage_tasks.report.guesses import guesses_text, score_guesses

    with unchanged(*guesses, Path(data)):
        pairs = read_pairs(
            data=data,
            split=split or default_split(stride),
            prefix_length=prefix_length,
            suffix_length=suffix_length,
            tokenizer=tokenizer,
            text_column=text_column,
            stride=stride,
        )
        scored = score_guesses(guesses, pairs, wrong)
    typer.echo(guesses_text(scored))
    if output is not None:
        text = json.dumps([score.to_json() for score in scored], indent=1, ensure_ascii=False, allow_nan=False)
        write_text(output, text + "\n", errors="backslashreplace")

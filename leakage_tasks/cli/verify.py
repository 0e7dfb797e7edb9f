"""``leakage verify``: check a planted dataset and print a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.help import PREPARE
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import Dask, Jobs


@register_command("verify", PREPARE, 3, example="leakage verify planted.txt canaries.jsonl")
def verify_command(
    planted: Annotated[Path, typer.Argument(help="Dataset written by 'leakage plant'.")],
    manifest: Annotated[Path, typer.Argument(help="Manifest of the planted canaries.")],
    chunk: Annotated[
        int | None, typer.Option(help="Also report the canaries that chunks of this length cut in two.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Measure --chunk in tokens of this tokenizer (default: in characters).")
    ] = None,
    text_column: Annotated[
        str | None, typer.Option(help="Column of the text (default: the column used for planting).")
    ] = None,
    source_column: Annotated[
        str | None, typer.Option(help="Column of the source sentences (default: the column used for planting).")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split of a saved folder (default: the split used for planting).")
    ] = None,
    jobs: Jobs = 1,
    dask: Dask = None,
) -> None:
    """Check that a planted dataset still holds its canaries.

    Compares hashes, counts exact copies and checks that no control is in the data. Exit code 1 if something differs.
    """
    values = dict(locals())
    from leakage_tasks.canaries.verify import verify

    report = verify(**values)
    for line in report.lines():
        typer.echo(line)
    if not report.ok:
        raise typer.Exit(1)

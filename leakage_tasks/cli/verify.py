"""``leakage verify``: options in, one library call, its report out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shard_options import Dask, Jobs


@register_command("verify", 3)
def verify_command(
    planted: Annotated[Path, typer.Argument(help="Dataset that 'leakage plant' wrote.")],
    manifest: Annotated[Path, typer.Argument(help="Manifest it was planted from.")],
    chunk: Annotated[int | None, typer.Option(help="Say which canaries chunks of this length cut in two.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="Count chunks in this tokenizer's tokens.")] = None,
    text_column: Annotated[str | None, typer.Option(help="Column of the text (default: as planted).")] = None,
    source_column: Annotated[str | None, typer.Option(help="Column of the source (default: as planted).")] = None,
    split: Annotated[str | None, typer.Option(help="Split of a saved folder (default: as planted).")] = None,
    jobs: Jobs = 1,
    dask: Dask = None,
) -> None:
    """Check a planted dataset: hashes, exact copies, no control in it. Exit code 1 if something differs."""
    given = dict(locals())
    from leakage_tasks.canaries.verify import verify

    report = verify(**given)
    for line in report.lines():
        typer.echo(line)
    if not report.ok:
        raise typer.Exit(1)

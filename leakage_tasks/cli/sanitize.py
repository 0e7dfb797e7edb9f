"""``leakage sanitize``: options in, one call into the library, a cleaner data set out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shard_options import Dask, Jobs


@register_command("sanitize", 7)
def sanitize_command(
    data: Annotated[
        Path,
        typer.Argument(
            help=".txt, .jsonl, .csv, .parquet, .conll, a folder saved by 'datasets' or of seq.in, one of shards, or a "
            "data set of the hub (hub:owner/name)."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where what is kept goes, in the same format.")],
    drop: Annotated[int, typer.Option(help="Samples to drop, with all their copies.")] = 50,
    report: Annotated[
        Path | None, typer.Option(help="Write every sample's place and costs, a JSON line each; texts masked.")
    ] = None,
    reveal: Annotated[bool, typer.Option("--reveal", help="Show texts in the report, secrets among them.")] = False,
    text_column: Annotated[str, typer.Option(help="Column of the text, or of chat turns.")] = "text",
    split: Annotated[str, typer.Option(help="Split of a saved folder with several.")] = "train",
    repeats: Annotated[int, typer.Option(help="Random splits to average, of two models each; 3 find more than 1.")] = 1,
    by: Annotated[
        str, typer.Option(help="Rank by the difference a character, or a whole sample as in the paper.")
    ] = "character",
    near: Annotated[
        float | None,
        typer.Option(help="Texts this similar, from 0.2 to 1, are one sample: 0.4 for lines with a word changed."),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Of training each model.")] = 20,
    batch_size: Annotated[int, typer.Option(help="Streams the models read at once; more are faster, learn less.")] = 16,
    seed: Annotated[int, typer.Option(help="Same seed, same samples.")] = 0,
    jobs: Jobs = 1,
    dask: Dask = None,
) -> None:
    """Drop the samples that a model learns by heart: made for secrets that occur once in the data, without a guarantee.

    The data is split at random into halves and a small character model is trained on each; a sample that is far
    likelier to the model that saw it than to the other is one that training would memorize.
    """
    given = {name: value for name, value in locals().items() if name not in ("data", "jobs", "dask")}
    from leakage_tasks.data import Columns
    from leakage_tasks.data.hub import is_hub, shards_for
    from leakage_tasks.data.shards import shards_of
    from leakage_tasks.defences.sanitize import sanitize

    wanted = Columns(text_column, None, split)
    shards = shards_for(data, wanted, output) if is_hub(data) else shards_of(data)
    if shards is not None:
        from leakage_tasks.core.errors import OptionError
        from leakage_tasks.defences.sanitize_shards import SanitizeOptions, sanitize_shards

        if report is not None:
            raise OptionError("--report is not for shards: sanitize one file to see its samples")
        settings = SanitizeOptions(drop, wanted, repeats, by, epochs, batch_size, seed, near=near)  # type: ignore[arg-type]
        typer.echo(sanitize_shards(shards, output, settings, jobs, dask).summary())
        return
    typer.echo(sanitize(data, **given).summary())

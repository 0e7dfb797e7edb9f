"""``leakage sanitize``: drop the samples that a model is likely to memorize."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.help import DEFEND
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import Dask, Jobs


@register_command("sanitize", DEFEND, 1, example="leakage sanitize train.txt -o clean.txt --drop 50")
def sanitize_command(
    data: Annotated[
        Path,
        typer.Argument(
            help=".txt, .jsonl, .csv, .tsv, .parquet, .conll, a folder saved by 'datasets', a folder with seq.in, a "
            "folder of shards, or a dataset of the hub (hub:owner/name)."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File for the remaining samples, in the format of DATA.")
    ],
    drop: Annotated[int, typer.Option(help="Number of samples to drop, each with all its copies.")] = 50,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Also write the position and costs of every sample to this file, as JSON Lines; texts are masked."
        ),
    ] = None,
    reveal: Annotated[bool, typer.Option("--reveal", help="Show the texts, including secrets, in the report.")] = False,
    text_column: Annotated[str, typer.Option(help="Column of the text, or of chat turns.")] = "text",
    split: Annotated[str, typer.Option(help="Split to read, if a saved folder has several.")] = "train",
    repeats: Annotated[
        int, typer.Option(help="Number of random splits to average, two models for each; 3 find more samples than 1.")
    ] = 1,
    by: Annotated[
        str, typer.Option(help="Rank by the difference per character, or per sample as in the paper.")
    ] = "character",
    near: Annotated[
        float | None,
        typer.Option(
            help="Similarity, from 0.2 to 1, above which texts count as one sample: 0.4 for lines with a word changed."
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Number of training epochs of each model.")] = 20,
    batch_size: Annotated[
        int, typer.Option(help="Number of parallel text streams; a larger number is faster but learns less.")
    ] = 16,
    seed: Annotated[int, typer.Option(help="Random seed of the splits and the models.")] = 0,
    jobs: Jobs = 1,
    dask: Dask = None,
) -> None:
    """Drop the samples that a model is likely to memorize.

    The data is split at random into halves and a small character model is trained on each half. A sample is dropped if
    it is far likelier under the model that was trained on it than under the other model. The method is made for
    secrets that occur once in the data, and comes without a guarantee.
    """
    options = {name: value for name, value in locals().items() if name not in ("data", "jobs", "dask")}
    from leakage_tasks.core.workers import check_jobs, check_no_cluster
    from leakage_tasks.data import Columns
    from leakage_tasks.data.hub import shards_for
    from leakage_tasks.defences.sanitize import sanitize

    columns = Columns(text_column, None, split)
    check_jobs(jobs)
    shards = shards_for(data, columns, output)
    if not shards.alone:
        from leakage_tasks.core.errors import OptionError
        from leakage_tasks.defences.sanitize_shards import SanitizeOptions, sanitize_shards

        if report is not None or reveal:
            name = "--reveal" if report is None else "--report"
            raise OptionError(
                f"{name} does not work with shards: sanitize one file to get a report, or leave {name} out"
            )
        settings = SanitizeOptions(drop, columns, repeats, by, epochs, batch_size, seed, near=near)  # type: ignore[arg-type]
        typer.echo(sanitize_shards(shards, output, settings, jobs, dask).summary())
        return
    check_no_cluster(dask)
    typer.echo(sanitize(data, **options).summary())

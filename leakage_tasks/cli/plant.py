"""``leakage plant``: options in, one library call, a short report out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shard_options import Dask, Jobs

_SOURCE = (
    ".txt, .jsonl, .csv, .conll (or these with .gz, .zst), .parquet, .arrow, a folder saved by 'datasets', one with "
    "seq.in, seq.out and label, shards (a folder of such files, or a quoted pattern such as 'data/*.jsonl.zst'), or a "
    "data set of the hub, hub:owner/name, hub:owner/name:subset@revision or hub:FOLDER."
)


@register_command("plant", 2)
def plant_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the planted copy goes, in the same format.")],
    manifest: Annotated[Path | None, typer.Argument(help="Manifest that 'leakage canaries' wrote.")] = None,
    source: Annotated[Path | None, typer.Argument(help=_SOURCE)] = None,
    validation: Annotated[
        Path | None, typer.Option(help="Validation data, which gets a tenth of each canary's copies instead.")
    ] = None,
    validation_output: Annotated[Path | None, typer.Option(help="Where the planted copy of --validation goes.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same places.")] = 0,
    text_column: Annotated[
        str | None, typer.Option(help="Column of the text, of chat turns, or of a prompt or an answer (default: text).")
    ] = None,
    role: Annotated[
        str | None,
        typer.Option(
            help="Whose turn of a chat the canaries are: assistant (default), user, system or tool; in rows of prompts "
            "and answers also which column they go into."
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            help="The text before each copy in rows of chats or of prompts and answers (default: Please continue.)."
        ),
    ] = None,
    turn: Annotated[
        str | None,
        typer.Option(
            help="Where in chats: new (default), each copy a conversation of its own, or at the end of the last or a "
            "random turn of --role in a conversation that is there."
        ),
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column that gets the canaries' labels (NLU data: always).")
    ] = None,
    source_column: Annotated[
        str | None, typer.Option(help="Column that gets the canaries' source sentences, for translation.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="For canaries without a label: rarest, most-popular or a class; the manifest gets it too."),
    ] = None,
    split: Annotated[str, typer.Option(help="Split, of data with several, that gets the canaries.")] = "train",
    fuzzy: Annotated[
        int | None,
        typer.Option(help="Change so many words around the secret in all copies but one; the manifest gets them too."),
    ] = None,
    remove: Annotated[
        Path | None,
        typer.Option(help="Take the canaries out of this planted data again, by its record; without MANIFEST, SOURCE."),
    ] = None,
    jobs: Jobs = 1,
    dask: Dask = None,
) -> None:
    """Plant canaries in a copy of a dataset, in random places; controls stay out."""
    given = {name: value for name, value in locals().items() if name != "remove"}
    if remove is not None:
        from leakage_tasks.canaries.unplant import remove as take_out

        if manifest is not None or source is not None:
            raise typer.BadParameter("takes neither MANIFEST nor SOURCE", param_hint="--remove")
        typer.echo(take_out(remove, output, jobs=jobs, dask=dask))
        return
    if manifest is None or source is None:
        raise typer.BadParameter("name the manifest and the data", param_hint="MANIFEST SOURCE")
    from leakage_tasks.canaries.planting import plant

    report = plant(**given)
    typer.echo(report.summary())
    if report.validation is not None:
        typer.echo(report.validation.summary())
    if report.remark is not None:
        typer.echo(f"leakage: warning: {report.remark}", err=True)
    if report.public:
        typer.echo(
            f"leakage: warning: {manifest} holds secrets of this package's own README or demo, which other people's "
            "training data and models may hold as well: make new ones with 'leakage canaries', without --seed",
            err=True,
        )

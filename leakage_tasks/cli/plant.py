"""``leakage plant``: plant canaries in a copy of a dataset, or take them out again, and print a summary."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.help import LAST_PANEL, PREPARE
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shard_options import Dask, Jobs

_SOURCE = (
    ".txt, .jsonl, .csv, .conll (or these with .gz, .zst), .parquet, .arrow, a folder saved by 'datasets', a folder "
    "with seq.in, seq.out and label, shards (a folder of such files, or a quoted pattern such as 'data/*.jsonl.zst'), "
    "or a dataset of the hub: hub:owner/name, hub:owner/name:subset@revision or hub:FOLDER."
)
COLUMNS = "Columns of the data"
CHATS = "Chats, and rows of prompts and answers"


@register_command(
    "plant",
    PREPARE,
    2,
    example="leakage plant canaries.jsonl train.txt -o planted.txt",
    renamed={"--fuzzy": "--near-copies", "--turn": "--chat-position"},
)
def plant_command(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File or folder for the planted copy, in the format of SOURCE.")
    ],
    manifest: Annotated[Path | None, typer.Argument(help="Manifest written by 'leakage canaries'.")] = None,
    source: Annotated[Path | None, typer.Argument(help=_SOURCE)] = None,
    validation: Annotated[
        Path | None,
        typer.Option(help="Validation data, which gets a tenth of each canary's copies, instead of the training data."),
    ] = None,
    validation_output: Annotated[Path | None, typer.Option(help="File for the planted copy of --validation.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the positions.")] = 0,
    text_column: Annotated[
        str | None,
        typer.Option(
            help="Column of the text, of chat turns, or of a prompt or an answer (default: text).",
            rich_help_panel=COLUMNS,
        ),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(help="Column for the canaries' labels (NLU data has one by definition).", rich_help_panel=COLUMNS),
    ] = None,
    source_column: Annotated[
        str | None,
        typer.Option(help="Column for the canaries' source sentences, for translation.", rich_help_panel=COLUMNS),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="Class for canaries without a label: rarest, most-popular or a name. The manifest is updated.",
            rich_help_panel=COLUMNS,
        ),
    ] = None,
    split: Annotated[
        str, typer.Option(help="Split that gets the canaries, if the data has several.", rich_help_panel=COLUMNS)
    ] = "train",
    role: Annotated[
        str | None,
        typer.Option(
            help="Role whose turn of a chat the canary is: assistant (default), user, system or tool. In rows of "
            "prompts and answers it also selects the column.",
            rich_help_panel=CHATS,
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            help="Text before each copy, in rows of chats or of prompts and answers (default: Please continue.).",
            rich_help_panel=CHATS,
        ),
    ] = None,
    chat_position: Annotated[
        str | None,
        typer.Option(
            help="Position in chats: new (default), a separate conversation for each copy; or last or random, the end "
            "of the last or of a random turn of --role in an existing conversation.",
            rich_help_panel=CHATS,
        ),
    ] = None,
    near_copies: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="In all but one copy, replace N words around the secret. The manifest gets the near copies.",
            rich_help_panel=LAST_PANEL,
        ),
    ] = None,
    remove: Annotated[
        Path | None,
        typer.Option(
            help="Take the canaries out of this planted dataset, by its record, instead of planting. Needs no MANIFEST "
            "and no SOURCE.",
            rich_help_panel=LAST_PANEL,
        ),
    ] = None,
    jobs: Jobs = 1,
    dask: Dask = None,
) -> None:
    """Plant canaries in a copy of a dataset.

    Each copy gets a random position. Controls are not planted. A record with hashes goes to OUTPUT.leakage.json.
    """
    options = {name: value for name, value in locals().items() if name != "remove"}
    if remove is not None:
        from leakage_tasks.canaries.unplant import remove as unplant

        if manifest is not None or source is not None:
            raise typer.BadParameter(
                "the record of the planted data replaces MANIFEST and SOURCE: leave both out, as in leakage plant "
                "--remove planted.txt -o clean.txt",
                param_hint="--remove",
            )
        typer.echo(unplant(remove, output, jobs=jobs, dask=dask))
        return
    if manifest is None or source is None:
        raise typer.BadParameter("give the manifest and the data", param_hint="MANIFEST SOURCE")
    from leakage_tasks.canaries.planting import plant

    report = plant(**options)
    typer.echo(report.summary())
    if report.validation is not None:
        typer.echo(report.validation.summary())
    if report.remark is not None:
        typer.echo(f"leakage: warning: {report.remark}", err=True)
    if report.public:
        typer.echo(
            f"leakage: warning: {manifest} holds secrets of this package's README or demo, which the training data and "
            "models of other people may contain too: make new ones with 'leakage canaries', without --seed",
            err=True,
        )

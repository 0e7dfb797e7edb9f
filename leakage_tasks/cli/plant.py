"""``leakage plant``: plant canaries in a copy of a dataset, or take them out again, and print a summary."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.help import LAST_PANEL, PREPARE, in_panel
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import Dask, Jobs

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
        str | None, in_panel(COLUMNS, "Column of the text, of chat turns, or of a prompt or an answer (default: text).")
    ] = None,
    label_column: Annotated[
        str | None, in_panel(COLUMNS, "Column for the canaries' labels (NLU data has one by definition).")
    ] = None,
    source_column: Annotated[
        str | None, in_panel(COLUMNS, "Column for the canaries' source sentences, for translation.")
    ] = None,
    label: Annotated[
        str | None,
        in_panel(
            COLUMNS, "Class for canaries without a label: rarest, most-popular or a name. The manifest is updated."
        ),
    ] = None,
    split: Annotated[str, in_panel(COLUMNS, "Split that gets the canaries, if the data has several.")] = "train",
    role: Annotated[
        str | None,
        in_panel(
            CHATS,
            "Role whose turn of a chat the canary is: assistant (default), user, system or tool. In rows of "
            "prompts and answers it also selects the column.",
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        in_panel(
            CHATS, "Text before each copy, in rows of chats or of prompts and answers (default: Please continue.)."
        ),
    ] = None,
    chat_position: Annotated[
        str | None,
        in_panel(
            CHATS,
            "Position in chats: new (default), a separate conversation for each copy; or last or random, the end "
            "of the last or of a random turn of --role in an existing conversation.",
        ),
    ] = None,
    near_copies: Annotated[
        int | None,
        in_panel(
            LAST_PANEL,
            "In all but one copy, replace N words around the secret. The manifest gets the near copies.",
            metavar="N",
        ),
    ] = None,
    remove: Annotated[
        Path | None,
        in_panel(
            LAST_PANEL,
            "Take the canaries out of this planted dataset, by its record, instead of planting. Needs no MANIFEST "
            "and no SOURCE.",
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

"""Options shared by commands that process data in shards."""

from __future__ import annotations

from typing import Annotated

import typer

Jobs = Annotated[int, typer.Option(help="Number of shards to process in parallel, each in its own process.")]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Address of a Dask scheduler whose workers process the shards, such as tcp://host:8786."
    ),
]

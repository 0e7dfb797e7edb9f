"""Options of the commands that take data in shards."""

from __future__ import annotations

from typing import Annotated

import typer

Jobs = Annotated[int, typer.Option(help="Shards at once, in processes of their own.")]
Dask = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Scheduler of a Dask cluster whose workers take the shards.")
]

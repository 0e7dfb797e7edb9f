"""What taking planted canaries out again takes, for one file: the record beside it, and writing what was before."""

from __future__ import annotations

import hashlib
import io
from contextlib import closing
from pathlib import Path
from typing import cast

from leakage_tasks.canaries.sidecar import Sidecar, read_sidecar, sha256_of, sidecar_path
from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data import Columns, format_of
from leakage_tasks.data.lines import open_source
from leakage_tasks.data.packed import codec_of


def summary(output: Path, record: Sidecar) -> str:
    """One line for people."""
    copies = sum(record.copies.values())
    return f"{output}: {copies} copies of {len(record.copies)} canaries removed, as {record.input} was"


def recorded(planted: Path) -> Sidecar:
    """The record beside planted data. Raises PlantingError where there is none."""
    if not planted.exists():
        raise PlantingError(f"{planted}: no such file or folder: check the path")
    record = read_sidecar(sidecar_path(planted))
    if record is None:
        raise PlantingError(
            f"{planted}: no record {sidecar_path(planted).name} beside it, which says what was planted: give the data "
            "that 'leakage plant' wrote"
        )
    return record


def write_back(planted: Path, output: Path, record: Sidecar, dropped: set[int]) -> str | None:
    """Write what was planted into to ``output``; its hash, where that was found out on the way.

    Raises PlantingError where it is not what the record says.
    """
    kind = format_of(planted)
    wanted = Columns(record.text_column, None, record.split or Columns.split, record.source_column)
    layout = kind.outline(planted, wanted)
    if not kind.exact and layout.rows != record.input_rows + len(dropped):
        raise _other(planted, f"{layout.rows:,} rows instead of {record.input_rows + len(dropped):,}")
    kind.write_back(planted, output, layout, wanted, dropped)
    if not kind.exact:
        return None
    found = _unpacked_hash(output)
    if found != (record.unpacked_sha256 or record.input_sha256):
        raise _other(planted, "what is left is not what was planted into")
    return found if codec_of(output) is None else None


def _unpacked_hash(path: Path) -> str:
    """Of what a file holds, unpacked where it is packed; of a folder as of other folders."""
    if codec_of(path) is None:
        return sha256_of(path)
    with closing(open_source(path)) as stream:
        return hashlib.file_digest(cast(io.BufferedIOBase, stream), "sha256").hexdigest()


def _other(planted: Path, why: str) -> PlantingError:
    return PlantingError(f"{planted}: cannot be taken apart again ({why}): plant anew from the data there were before")

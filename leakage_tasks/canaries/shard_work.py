"""What is done to one shard of data, in whatever process: counting its rows, planting, taking canaries out again.

What is known of a shard is kept beside the output until all are done, so a run that was ended goes on where it was. A
shard is known again by the hashes of what was read and written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.places import Gap, planted_rows
from leakage_tasks.canaries.sidecar import Sidecar, sha256_of
from leakage_tasks.canaries.taking_out import write_back
from leakage_tasks.core.atomic import replacing, write_text
from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.inputs import parse_json, read_bytes
from leakage_tasks.core.steady import changed, unchanged
from leakage_tasks.data import Columns, Layout, format_of


@dataclass(frozen=True)
class ShardPlace:
    """Where a shard is read and written, and where what is known of it is kept."""

    name: str
    source: Path
    output: Path
    state: Path
    wanted: Columns


@dataclass
class Known:
    """What is known of a shard; a ``layout`` only in the run that found it."""

    key: str
    """Of what the columns asked for were, and of what was planted once it is."""
    rows: int
    characters: int
    text: str
    label: str | None
    chat: bool
    labels: dict[str, Any]
    input_sha256: str
    unpacked_sha256: str | None
    output_sha256: str | None = None
    layout: Layout | None = None
    stamp: tuple[int, int] | None = None


def count(place: ShardPlace) -> Known:
    """Read a shard through, or take what an earlier run found if the shard is the same."""
    with unchanged(place.source):
        stamp = _stamp(place.source)
        digest = sha256_of(place.source)
        earlier = _read(place.state)
        if (
            earlier is not None
            and earlier.input_sha256 == digest
            and earlier.key.split("|")[0] == _columns(place.wanted)
        ):
            return replace(earlier, stamp=stamp)
        kind = format_of(place.source)
        layout = kind.survey(place.source, place.wanted)
        texts = kind.texts(place.source, layout, place.wanted)
        characters = sum(len(turn) for turns in texts for turn in turns)
    found = (layout.rows, characters, layout.text, layout.label, layout.chat, layout.labels)
    known = Known(_columns(place.wanted), *found, digest, layout.unpacked_sha256)
    _write(known, place.state)
    return replace(known, layout=layout, stamp=stamp)


@dataclass(frozen=True)
class ShardPlanting:
    """What goes into one shard."""

    place: ShardPlace
    known: Known
    key: str
    gaps: Sequence[Gap]
    canaries: dict[str, Canary]
    labels: dict[str, Any]
    """The classes of all shards."""


def plant_one(task: ShardPlanting) -> tuple[Known, dict[str, int]]:
    """Write a shard's planted copy unless an earlier run did; how many rows its copies take, where not one."""
    place, known = task.place, task.known
    kind = format_of(place.source)
    key = f"{_columns(place.wanted)}|{task.key}"
    done = known.key == key and known.output_sha256 is not None and place.output.is_file()
    with unchanged(place.source):
        if _stamp(place.source) != known.stamp:
            raise changed(place.source)
        layout = known.layout or kind.survey(place.source, place.wanted)
        layout = replace(layout, labels=task.labels, role=place.wanted.role or layout.role)
        rows = {name: layout.row(canary) for name, canary in task.canaries.items()}
        heights = {name: height for name, row in rows.items() if (height := kind.height(row)) != 1}
        if done and sha256_of(place.output) == known.output_sha256:
            return replace(known, layout=None), heights
        with replacing(place.output, like=place.source) as beside:
            points = [(gap, rows[name]) for gap, name in task.gaps]
            kind.write(place.source, beside, layout, place.wanted, points)
            digest = sha256_of(beside)
            if _stamp(place.source) != known.stamp:
                raise changed(place.source)
    planted = replace(known, key=key, output_sha256=digest, layout=None)
    _write(planted, place.state)
    return planted, heights


@dataclass(frozen=True)
class Removal:
    """A planted shard, and where it goes without its copies; ``record`` tells of it alone."""

    planted: Path
    output: Path
    record: Sidecar
    gaps: Sequence[Gap]


def remove_one(task: Removal) -> None:
    """Write a shard as it was before it was planted into."""
    with unchanged(task.planted), replacing(task.output, like=task.planted) as beside:
        if sha256_of(task.planted) != task.record.output_sha256:
            raise PlantingError(
                f"{task.planted}: changed since it was planted, so its copies cannot be told: plant anew"
            )
        write_back(task.planted, beside, task.record, planted_rows(task.gaps, task.record.heights or {}))


def _columns(wanted: Columns) -> str:
    return json.dumps([wanted.text, wanted.label, wanted.split, wanted.source]).replace("|", "\\u007c")


def _stamp(path: Path) -> tuple[int, int]:
    try:
        known = os.stat(path)
    except OSError as error:
        raise PlantingError(f"{path}: cannot be read ({error.strerror}): check the path") from None
    return known.st_size, known.st_mtime_ns


def _write(known: Known, state: Path) -> None:
    kept = {name: value for name, value in vars(known).items() if name not in ("layout", "stamp")}
    write_text(state, json.dumps(kept) + "\n")


def _read(state: Path) -> Known | None:
    """What an earlier run noted; None where it did not, or noted something else."""
    try:
        return Known(**parse_json(read_bytes(state)))
    except (OSError, ValueError, TypeError):
        return None

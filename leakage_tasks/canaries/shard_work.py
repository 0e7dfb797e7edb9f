"""What is done to one shard of data, in whatever process: counting its rows, planting, taking canaries out again.

What is known of a shard is kept beside the output until all are done, so a run that was ended goes on where it was. A
shard is known again by the hashes of what was read and written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.copy_rows import points_of
from leakage_tasks.canaries.places import Gap
from leakage_tasks.canaries.sidecar import sha256_of
from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.partial_results import load_part, save_part
from leakage_tasks.core.stable_inputs import changed, unchanged
from leakage_tasks.data import Columns, Layout, format_of


@dataclass(frozen=True)
class ShardPlace:
    """Where a shard is read and written, and the folder where what is known of shards is kept."""

    name: str
    source: Path
    output: Path
    state: Path
    wanted: Columns


@dataclass
class Known:
    """What is known of a shard before anything is planted; ``layout`` only in the run that found it."""

    rows: int
    characters: int
    text: str
    label: str | None
    chat: bool
    labels: dict[str, Any]
    input_sha256: str
    unpacked_sha256: str | None
    layout: Layout | None = None
    stamp: tuple[int, int] | None = None
    """What tells the file from one that was changed since."""
    again: bool = False
    """Whether an earlier run found it out."""
    shape: str | None = None
    """The name of the shape of rows that hold prompts and answers in columns of their own."""


def count(place: ShardPlace) -> Known:
    """Read a shard through, or take what an earlier run found if the shard is the same."""
    state = place.state / f"{place.name}.count.json"
    with unchanged(place.source):
        stamp = _stamp(place.source)
        digest = sha256_of(place.source)
        key = ["count", digest, asdict(place.wanted)]
        if (earlier := load_part(state, key)) is not None:
            return Known(**earlier, stamp=stamp, again=True)
        kind = format_of(place.source)
        layout = kind.survey(place.source, place.wanted)
        characters = kind.characters(place.source, layout, place.wanted)
    found = {name: getattr(layout, name) for name in ("rows", "text", "label", "chat", "labels", "unpacked_sha256")}
    found |= {"characters": characters, "input_sha256": digest, "shape": layout.shape and layout.shape.name}
    save_part(state, key, found)
    return Known(**found, layout=layout, stamp=stamp)


@dataclass(frozen=True)
class ShardPlanting:
    """What goes into one shard."""

    place: ShardPlace
    known: Known
    key: str
    """Of all that is planted."""
    gaps: Sequence[Gap]
    canaries: dict[str, Canary]
    labels: dict[str, Any]
    """The classes of all shards."""


@dataclass(frozen=True)
class Written:
    """A shard that is done: its hash, how many rows a copy takes, by id, where not one, if an earlier run wrote it."""

    output_sha256: str
    heights: Mapping[str, int] = field(default_factory=dict)
    again: bool = False


def plant_one(task: ShardPlanting) -> Written:
    """Write a shard's planted copy unless an earlier run did."""
    place, known = task.place, task.known
    kind = format_of(place.source)
    state = place.state / f"{place.name}.planted.json"
    key = ["plant", known.input_sha256, asdict(place.wanted), task.key]
    with unchanged(place.source):
        _check_stamp(task)
        if (earlier := written_before(state, key, place.output)) is not None:
            return earlier
        layout = known.layout or kind.survey(place.source, place.wanted)
        layout = replace(layout, labels=task.labels).for_copies(place.source, place.wanted)
        rows = {name: layout.row(canary) for name, canary in task.canaries.items()}
        heights = {name: height for name, row in rows.items() if (height := kind.height(row)) != 1}
        points = points_of(kind, place.source, layout, place.wanted, task.gaps, task.canaries, task.key)
        with replacing(place.output, like=place.source) as beside:
            kind.write(place.source, beside, layout, place.wanted, points)
            digest = sha256_of(beside)
            _check_stamp(task)
    save_part(state, key, {"output_sha256": digest, "heights": heights})
    return Written(digest, heights)


def written_before(state: Path, key: Any, output: Path) -> Written | None:
    """What an earlier run wrote, if it is still there."""
    earlier = load_part(state, key)
    if earlier is None or not output.is_file() or sha256_of(output) != earlier["output_sha256"]:
        return None
    return Written(**earlier, again=True)


def _check_stamp(task: ShardPlanting) -> None:
    if _stamp(task.place.source) != task.known.stamp:
        raise changed(task.place.source)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        known = os.stat(path)
    except OSError as error:
        raise PlantingError(f"{path}: cannot be read ({error.strerror}): check the path") from None
    return known.st_size, known.st_mtime_ns

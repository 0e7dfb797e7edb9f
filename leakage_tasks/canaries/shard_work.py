"""Work on one shard of data in a worker process: counting rows, planting, and reuse of earlier results.

Results for a shard are stored next to the output until all shards are finished, so an interrupted run can continue. The
hashes of the files that were read and written identify a shard.
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
class ShardPaths:
    """The input and output of a shard, and the folder for stored results."""

    name: str
    source: Path
    output: Path
    state: Path
    wanted: Columns


@dataclass
class ShardFacts:
    """The facts about a shard that planting needs; ``layout`` is set only in the run that computed it."""

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
    """The file's size and modification time, to detect later changes."""
    again: bool = False
    """True if an earlier run computed the facts."""
    shape: str | None = None
    """The name of the row shape, if rows hold prompts and answers in separate columns."""


def count_shard(paths: ShardPaths) -> ShardFacts:
    """Compute the facts about a shard, or return the stored facts of an earlier run if the shard is unchanged."""
    state = paths.state / f"{paths.name}.count.json"
    with unchanged(paths.source):
        stamp = _stamp(paths.source)
        digest = sha256_of(paths.source)
        key = ["count", digest, asdict(paths.wanted)]
        if (earlier := load_part(state, key)) is not None:
            return ShardFacts(**earlier, stamp=stamp, again=True)
        kind = format_of(paths.source)
        layout = kind.survey(paths.source, paths.wanted)
        characters = kind.characters(paths.source, layout, paths.wanted)
    facts = {name: getattr(layout, name) for name in ("rows", "text", "label", "chat", "labels", "unpacked_sha256")}
    facts |= {"characters": characters, "input_sha256": digest, "shape": layout.shape and layout.shape.name}
    save_part(state, key, facts)
    return ShardFacts(**facts, layout=layout, stamp=stamp)


@dataclass(frozen=True)
class ShardPlanting:
    """The copies to plant in one shard."""

    paths: ShardPaths
    facts: ShardFacts
    key: str
    """A hash of all planted copies."""
    gaps: Sequence[Gap]
    canaries: dict[str, Canary]
    labels: dict[str, Any]
    """The classes of all shards."""


@dataclass(frozen=True)
class Written:
    """A finished shard: its hash, and the number of rows of a canary's copy by id, if it is not 1.

    ``again`` is True if an earlier run wrote the shard.
    """

    output_sha256: str
    heights: Mapping[str, int] = field(default_factory=dict)
    again: bool = False


def plant_shard(task: ShardPlanting) -> Written:
    """Write a shard's planted copy, unless an earlier run has written it."""
    paths, facts = task.paths, task.facts
    kind = format_of(paths.source)
    state = paths.state / f"{paths.name}.planted.json"
    key = ["plant", facts.input_sha256, asdict(paths.wanted), task.key]
    with unchanged(paths.source):
        _check_stamp(task)
        if (earlier := written_before(state, key, paths.output)) is not None:
            return earlier
        layout = facts.layout or kind.survey(paths.source, paths.wanted)
        layout = replace(layout, labels=task.labels).for_copies(paths.source, paths.wanted)
        rows = {name: layout.row(canary) for name, canary in task.canaries.items()}
        heights = {name: height for name, row in rows.items() if (height := kind.height(row)) != 1}
        points = points_of(kind, paths.source, layout, paths.wanted, task.gaps, task.canaries, task.key)
        with replacing(paths.output, like=paths.source) as beside:
            kind.write(paths.source, beside, layout, paths.wanted, points)
            digest = sha256_of(beside)
            _check_stamp(task)
    save_part(state, key, {"output_sha256": digest, "heights": heights})
    return Written(digest, heights)


def written_before(state: Path, key: Any, output: Path) -> Written | None:
    """Return the shard that an earlier run wrote, or None if it is missing or changed."""
    earlier = load_part(state, key)
    if earlier is None or not output.is_file() or sha256_of(output) != earlier["output_sha256"]:
        return None
    return Written(**earlier, again=True)


def _check_stamp(task: ShardPlanting) -> None:
    if _stamp(task.paths.source) != task.facts.stamp:
        raise changed(task.paths.source)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError as error:
        raise PlantingError(f"{path}: cannot be read ({error.strerror}): check the path") from None
    return status.st_size, status.st_mtime_ns

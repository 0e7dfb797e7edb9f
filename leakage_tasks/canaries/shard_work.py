"""Work on one shard of data: counting rows, planting, and reuse of earlier results.

Results for the shards of a folder are stored next to the output until all shards are finished, so an interrupted run
can continue. The hashes of the files that were read and written identify a shard. A single file is one shard whose
results are not stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.places import Gap, points_of
from leakage_tasks.canaries.sidecar import sha256_of
from leakage_tasks.canaries.turns import draw_turns
from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.partial_results import load_part, save_part
from leakage_tasks.core.stable_inputs import FileStates, changed, file_states, unchanged
from leakage_tasks.data import Columns, Format, Layout, format_of
from leakage_tasks.data.chat import Turn
from leakage_tasks.data.shapes import shape_called


@dataclass(frozen=True)
class ShardPaths:
    """The input and output of a shard, and the folder for stored results; None for a single file."""

    name: str
    source: Path
    output: Path
    state: Path | None
    wanted: Columns

    def stored(self, work: str) -> Path | None:
        """Return the file for the result of the work ``count`` or ``planted``."""
        return None if self.state is None else self.state / f"{self.name}.{work}.json"


_STORED = ("rows", "text", "label", "chat", "labels", "unpacked_sha256", "characters")
"""The fields of a layout that are stored for an interrupted run."""


@dataclass
class ShardFacts:
    """The facts about a shard that planting needs."""

    layout: Layout
    """The layout; if an earlier run computed it, only the stored fields and the shape are set."""
    input_sha256: str
    states: FileStates
    """The file's size and modification time, to detect later changes; empty for the folder of a saved data set. Device
    numbers are left out, because they differ between the machines that share a disk."""
    again: bool = False
    """True if an earlier run computed the facts."""


def count_shard(paths: ShardPaths) -> ShardFacts:
    """Compute the facts about a shard, or return the stored facts of an earlier run if the shard is unchanged."""
    state = paths.stored("count")
    with unchanged(paths.source):
        states = file_states([paths.source])
        digest = sha256_of(paths.source)
        key = ["count", digest, asdict(paths.wanted)]
        if (earlier := load_part(state, key)) is not None:
            stored = {name: earlier[name] for name in _STORED}
            layout = Layout(columns=(), shape=shape_called(earlier["shape"]), **stored)
            return ShardFacts(layout, digest, states, again=True)
        kind = format_of(paths.source)
        layout = kind.survey(paths.source, paths.wanted)
        layout.characters = kind.characters(paths.source, layout, paths.wanted)
    stored = {name: getattr(layout, name) for name in _STORED}
    save_part(state, key, {**stored, "input_sha256": digest, "shape": layout.shape and layout.shape.name})
    return ShardFacts(layout, digest, states)


@dataclass(frozen=True)
class ShardPlanting:
    """The copies to plant in one shard."""

    paths: ShardPaths
    facts: ShardFacts
    stream: str
    """The seed for drawing answers and turns; among the shards of a folder it is a hash of all planted copies."""
    gaps: Sequence[Gap]
    canaries: dict[str, Canary]
    labels: dict[str, Any]
    """The classes of all shards."""
    turn: Turn = "new"
    """The position of copies in chats."""


@dataclass(frozen=True)
class Written:
    """A finished shard: its hash, and the number of rows of a canary's copy by id, if it is not 1.

    ``again`` is True if an earlier run wrote the shard. ``skipped`` is the number of conversations without a suitable
    turn, and ``characters`` the length of all texts; both are 0 if copies are separate rows.
    """

    output_sha256: str
    heights: Mapping[str, int] = field(default_factory=dict)
    again: bool = False
    skipped: int = 0
    characters: int = 0


def plant_shard(task: ShardPlanting) -> Written:
    """Write the planted copy of a folder's shard, unless an earlier run has written it."""
    paths, kind = task.paths, format_of(task.paths.source)
    state = paths.stored("planted")
    key = ["plant", task.facts.input_sha256, asdict(paths.wanted), task.stream]
    with unchanged(paths.source):
        _check_states(task)
        if (earlier := written_before(state, key, paths.output)) is not None:
            return earlier
        with replacing(paths.output, like=paths.source) as beside:
            written = write_shard(kind, task, beside)
            _check_states(task)
    save_part(state, key, {"output_sha256": written.output_sha256, "heights": written.heights})
    return written


def write_shard(kind: Format, task: ShardPlanting, output: Path) -> Written:
    """Write the planted copy of a shard to ``output``."""
    source, wanted = task.paths.source, task.paths.wanted
    layout = kind.survey(source, wanted) if task.facts.again else task.facts.layout
    layout = replace(layout, labels=task.labels).for_copies(source, wanted)
    if task.turn != "new":
        chats = kind.values(source, layout, wanted, layout.text)
        additions, skipped = draw_turns(source, chats, layout.role, (task.turn, task.stream), task.canaries.values())
        kind.write_into_turns(source, output, layout, wanted, additions)
        characters = kind.characters(output, replace(layout, characters=None), wanted)
        return Written(sha256_of(output), skipped=skipped, characters=characters)
    heights = {name: kind.height(layout.row(canary)) for name, canary in task.canaries.items()}
    points = points_of(kind, source, layout, wanted, task.gaps, task.canaries, task.stream)
    kind.write(source, output, layout, wanted, points)
    return Written(sha256_of(output), {name: height for name, height in heights.items() if height != 1})


def written_before(state: Path | None, key: Any, output: Path) -> Written | None:
    """Return the shard that an earlier run wrote, or None if it is missing or changed."""
    earlier = load_part(state, key)
    if earlier is None or not output.is_file() or sha256_of(output) != earlier["output_sha256"]:
        return None
    return Written(**earlier, again=True)


def _check_states(task: ShardPlanting) -> None:
    if file_states([task.paths.source]) != task.facts.states:
        raise changed(task.paths.source)

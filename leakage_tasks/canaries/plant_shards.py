"""Planting in the shards of a job. All rows are counted first, so that positions are uniform over all shards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.manifest import manifest_hash
from leakage_tasks.canaries.places import distribute_gaps, gaps_of
from leakage_tasks.canaries.plant_jobs import PlantJob, PlantReport
from leakage_tasks.canaries.shard_work import (
    ShardFacts,
    ShardPaths,
    ShardPlanting,
    Written,
    count_shard,
    plant_shard,
    write_shard,
)
from leakage_tasks.canaries.sidecar import (
    Shard,
    Sidecar,
    read_sidecar,
    repetitions_in,
    sha256_of_all,
    sidecar_path,
    write_sidecar,
)
from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.partial_results import parts_folder, removed_if_empty
from leakage_tasks.core.permissions import open_to_readers
from leakage_tasks.data import Layout
from leakage_tasks.data.conversations import holds_conversations
from leakage_tasks.data.shards import clear, new_folders, state_of

MapCall = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""A function that calls a function for each task, possibly in other processes."""


@dataclass(frozen=True)
class Counted:
    """The shards of a job after counting, and the layout of all shards together."""

    job: PlantJob
    paths: Sequence[ShardPaths]
    facts: Sequence[ShardFacts]
    layout: Layout

    def joined(self, hashes: Sequence[str]) -> str:
        """Return the hash of the data, given the hash of each shard."""
        shards = self.job.shards
        return hashes[0] if shards.alone else sha256_of_all(dict(zip(shards.names, hashes, strict=True)))

    @property
    def input_sha256(self) -> str:
        """The hash of the data before planting."""
        return self.joined([shard.input_sha256 for shard in self.facts])


def count(job: PlantJob, map_call: MapCall) -> Counted:
    """Count the rows of all shards; an interrupted run on a folder continues with the shards that are left.

    Raises LeakageError for a shard that cannot be read, for shards with different columns, and for a turn, role or
    prompt that the data do not have.
    """
    shards = job.shards
    state: Path | None = None
    if shards.alone:
        paths = [ShardPaths(name, shards.path(name), job.output, None, job.wanted) for name in shards.names]
    else:
        output = job.output.absolute()
        state = parts_folder(state_of(output))
        paths = [
            ShardPaths(name, shards.path(name).absolute(), output / name, state, job.wanted) for name in shards.names
        ]
    with removed_if_empty(state):
        facts: list[ShardFacts] = map_call(count_shard, paths)
    _check_equal_columns(paths, facts)
    layout = replace(facts[0].layout, rows=sum(shard.layout.rows for shard in facts))
    if not layout.chat and job.turn != "new":
        problem = f"column {layout.text!r} holds no chat turns, so copies cannot go into the last or a random turn"
        raise PlantingError(subject=str(job.source), problem=problem, remedy="leave {} out", option="chat_position")
    return Counted(job, paths, facts, layout.for_copies(paths[0].source, job.wanted))


def plant_counted(
    counted: Counted, canaries: Sequence[Canary], planted: Sequence[Canary], map_call: MapCall, files: ExitStack
) -> PlantReport:
    """Write the planted copies of all shards and their record.

    A copy is equally likely before every row of all shards. Output and record do not depend on the number of processes.

    Args:
        counted: The job and its shards.
        canaries: All canaries of the manifest.
        planted: The canaries to plant.
        map_call: The function that processes the shards.
        files: The context that replaces older files by the copy of a single file and its record when it closes. The
            shards of a folder are replaced one by one, and an interrupted run continues with the shards that are left.

    Raises:
        LeakageError: If a shard cannot be read or written.
    """
    job = counted.job
    shares = ((canary, repetitions_in(job.part, canary.repetitions)) for canary in planted)
    here = [replace(canary, repetitions=share) for canary, share in shares if share]
    content = manifest_hash(canaries)
    tasks = _tasks(counted, content, here)
    if job.shards.alone:
        _check_not_planted(job.source, counted.input_sha256, content)
        record_file = files.enter_context(replacing(job.record_path, like=job.source))
        beside = files.enter_context(replacing(job.output, like=job.source))
        done = [write_shard(job.kind, tasks[0], beside)]
        record = _record(counted, done, here, content)
        write_sidecar(record, record_file)
    else:
        output = job.output.absolute()
        with new_folders(output, job.shards.names, job.shards.root):
            done = map_call(plant_shard, tasks)
        record = _record(counted, done, here, content)
        with replacing(job.record_path, private=True) as record_file:
            write_sidecar(record, record_file)
        open_to_readers(job.record_path, (paths.source for paths in counted.paths), job.shards.root)
        clear(parts_folder(state_of(output)), output)
    controls = sum(not canary.planted for canary in canaries)
    return PlantReport(
        job.output,
        job.record_path,
        record,
        controls,
        natural=len(canaries) - len(planted) - controls,
        few=len(planted) - len(here),
        without_turn=sum(shard.skipped for shard in done),
        labels_unused=record.label_column is None and any(canary.label is not None for canary in here),
        again=(sum(shard.again for shard in counted.facts), sum(shard.again for shard in done)),
    )


def _tasks(counted: Counted, manifest_sha256: str, here: Sequence[Canary]) -> list[ShardPlanting]:
    job = counted.job
    labels: dict[str, Any] = {}
    for shard in counted.facts:
        labels = shard.layout.labels | labels
    by_id = {canary.id: canary for canary in here}
    rows = [shard.layout.rows for shard in counted.facts]
    gaps = gaps_of({canary.id: canary.repetitions for canary in here}, sum(rows), job.stream)
    tasks = []
    for paths, shard, own in zip(counted.paths, counted.facts, distribute_gaps(gaps, rows), strict=True):
        stream, canaries = job.stream, by_id
        if not job.shards.alone:
            content = json.dumps([manifest_sha256, job.seed, job.wanted.role, job.wanted.prompt, own])
            stream = hashlib.sha256(content.encode()).hexdigest()
            canaries = {name: by_id[name] for _, name in own}
        tasks.append(ShardPlanting(paths, shard, stream, own, canaries, labels, job.turn))
    return tasks


def _record(counted: Counted, done: Sequence[Written], here: Sequence[Canary], manifest_sha256: str) -> Sidecar:
    job, layout = counted.job, counted.layout
    copies = {canary.id: canary.repetitions for canary in here}
    shards = {
        name: Shard(
            rows=shard.layout.rows,
            input_sha256=shard.input_sha256,
            output_sha256=written.output_sha256,
            unpacked_sha256=shard.layout.unpacked_sha256,
        )
        for name, shard, written in zip(job.shards.names, counted.facts, done, strict=True)
    }
    of_splits = (job.source / "dataset_dict.json").is_file()
    return Sidecar(
        seed=job.seed,
        format=job.kind.name,
        input=job.shards.display_name,
        input_sha256=counted.input_sha256,
        input_rows=layout.rows,
        manifest=job.manifest.name,
        manifest_sha256=manifest_sha256,
        output=job.output.name,
        output_sha256=counted.joined([written.output_sha256 for written in done]),
        output_rows=layout.rows + (sum(copies.values()) if job.turn == "new" else 0),
        text_column=layout.text,
        label_column=layout.label,
        source_column=job.wanted.source,
        split=job.wanted.split if of_splits else job.shards.split,
        copies=copies,
        part=job.part,
        before=job.before(layout),
        characters=_characters(counted, done, here),
        role=layout.role if holds_conversations(layout) else None,
        unpacked_sha256=layout.unpacked_sha256 if job.shards.alone else None,
        heights={name: height for shard in done for name, height in shard.heights.items()} or None,
        shards=None if job.shards.alone else shards,
        turn=job.turn if layout.chat else None,
        prompt=layout.prompt if job.turn == "new" else None,
    )


def _characters(counted: Counted, done: Sequence[Written], here: Sequence[Canary]) -> int:
    """Return the number of characters of all texts after planting."""
    if counted.job.turn != "new":
        return sum(shard.characters for shard in done)
    # A line of running text includes its line break.
    added = sum((len(canary.text) + counted.job.kind.running) * canary.repetitions for canary in here)
    return added + sum(shard.layout.characters or 0 for shard in counted.facts)


def _check_not_planted(source: Path, sha256: str, manifest_sha256: str) -> None:
    earlier = read_sidecar(sidecar_path(source))
    if earlier and (earlier.output_sha256, earlier.manifest_sha256) == (sha256, manifest_sha256):
        raise PlantingError(
            f"{source}: holds the canaries of this manifest already: plant into {earlier.input} instead"
        )


def _check_equal_columns(all_paths: Sequence[ShardPaths], facts: Sequence[ShardFacts]) -> None:
    first = facts[0].layout
    for paths, shard in zip(all_paths, facts, strict=True):
        if (shard.layout.text, shard.layout.chat, shard.layout.shape) != (first.text, first.chat, first.shape):
            raise PlantingError(
                f"{paths.source}: its text column or its kind of rows differs from {all_paths[0].name}: name the column"
            )

"""Planting in data of several files. All rows are counted first, so that positions are uniform over all files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.manifest import manifest_hash
from leakage_tasks.canaries.places import Gap, distribute_gaps, gaps_of, stream_of
from leakage_tasks.canaries.plant_jobs import PlantJob, PlantReport
from leakage_tasks.canaries.shard_work import (
    ShardFacts,
    ShardPaths,
    ShardPlanting,
    Written,
    count_shard,
    plant_shard,
)
from leakage_tasks.canaries.sidecar import Sidecar, read_sidecar, sha256_of_all, sidecar_path, write_sidecar
from leakage_tasks.core.atomic import check_place, replacing
from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.partial_results import parts_folder
from leakage_tasks.core.permissions import open_to_readers
from leakage_tasks.core.workers import workers
from leakage_tasks.data import Layout, format_of, overlap
from leakage_tasks.data.shapes import shape_called
from leakage_tasks.data.shards import Shards, check_no_other_files, clear, make_folders, state_of


def plant_shards(
    job: PlantJob,
    shards: Shards,
    canaries: Sequence[Canary],
    planted: Sequence[Canary],
    jobs: int = 1,
    dask: str | None = None,
) -> PlantReport:
    """Copy all shards to the folder ``job.output`` and plant the canaries ``planted`` in them.

    A copy is equally likely before every row of all shards. Output and record do not depend on ``jobs``. An interrupted
    run continues with the shards that are left.

    Args:
        job: The input, output, seed and columns.
        shards: The files of the data set.
        canaries: All canaries of the manifest.
        planted: The canaries to plant.
        jobs: The number of shards processed in parallel.
        dask: The address of a dask scheduler, or None.

    Raises:
        LeakageError: If a shard cannot be read or written; finished shards are kept.
    """
    output = job.output.absolute()
    _check(job, shards)
    state = parts_folder(state_of(output))
    all_paths = [
        ShardPaths(name, shards.path(name).absolute(), output / name, state, job.wanted) for name in shards.names
    ]
    make_folders(output, shards.names, shards.root)
    copies = {canary.id: canary.repetitions for canary in planted}
    with workers(len(all_paths), jobs, dask) as map_call:
        facts: list[ShardFacts] = map_call(count_shard, all_paths)
        _check_equal_columns(all_paths, facts)
        rows = [shard.rows for shard in facts]
        gaps = gaps_of(copies, sum(rows), stream_of(job.seed, None))
        done: list[Written] = map_call(
            plant_shard, _tasks(job, all_paths, facts, distribute_gaps(gaps, rows), canaries, planted)
        )
    record = _record(job, shards, facts, done, planted, canaries)
    heights = {name: height for shard in done for name, height in shard.heights.items()}
    record = replace(record, heights=heights or None)
    with replacing(job.record_path, private=True) as beside:
        write_sidecar(record, beside)
    open_to_readers(job.record_path, (paths.source for paths in all_paths), shards.root)
    clear(state, output)
    controls = sum(not canary.planted for canary in canaries)
    natural = len(canaries) - len(planted) - controls
    unused = job.wanted.label is None and any(canary.label is not None for canary in planted)
    again = (sum(shard.again for shard in facts), sum(shard.again for shard in done))
    return PlantReport(
        job.output, job.record_path, record, controls, natural=natural, labels_unused=unused, again=again
    )


def _tasks(
    job: PlantJob,
    all_paths: Sequence[ShardPaths],
    facts: Sequence[ShardFacts],
    dealt: Sequence[Sequence[Gap]],
    canaries: Sequence[Canary],
    planted: Sequence[Canary],
) -> list[ShardPlanting]:
    labels: dict[str, Any] = {}
    for shard in facts:
        labels = shard.labels | labels
    by_id = {canary.id: canary for canary in planted}
    tasks = []
    for paths, shard, gaps in zip(all_paths, facts, dealt, strict=True):
        content = json.dumps([manifest_hash(canaries), job.seed, job.wanted.role, job.wanted.prompt, gaps])
        key = hashlib.sha256(content.encode()).hexdigest()
        here = {name: by_id[name] for _, name in gaps}
        tasks.append(ShardPlanting(paths, shard, key, gaps, here, labels))
    return tasks


def _record(
    job: PlantJob,
    shards: Shards,
    facts: Sequence[ShardFacts],
    done: Sequence[Written],
    planted: Sequence[Canary],
    canaries: Sequence[Canary],
) -> Sidecar:
    first = facts[0]
    kind = format_of(shards.path(shards.names[0]))
    layout = Layout(sum(shard.rows for shard in facts), (), first.text, first.label, chat=first.chat)
    layout.shape = shape_called(first.shape)
    layout = layout.for_copies(shards.root, job.wanted)
    shard_records: dict[str, dict[str, Any]] = {
        name: {
            "rows": shard.rows,
            "input_sha256": shard.input_sha256,
            "output_sha256": written.output_sha256,
            "unpacked_sha256": shard.unpacked_sha256,
        }
        for name, shard, written in zip(shards.names, facts, done, strict=True)
    }
    before, after = (
        sha256_of_all({name: hashes[part] for name, hashes in shard_records.items()})
        for part in ("input_sha256", "output_sha256")
    )
    characters = sum(shard.characters for shard in facts)
    characters += sum((len(canary.text) + kind.running) * canary.repetitions for canary in planted)
    copies = {canary.id: canary.repetitions for canary in planted}
    job.__dict__["kind"] = kind
    record = job.record(layout, (before, manifest_hash(canaries), after), copies, characters, {})
    return replace(record, input=shards.display_name, split=shards.split, shards=shard_records)


def _check(job: PlantJob, shards: Shards) -> None:
    """Raise PlantingError for an output that cannot be written, or that contains other files than these shards."""
    for ours in (job.output, job.record_path):
        for theirs, what in ((shards.home, "input"), (job.manifest, "manifest")):
            if overlap(ours, theirs) and not (ours == job.record_path and theirs == shards.home):
                raise PlantingError(f"{ours}: would overwrite the {what} {theirs}: choose another output")
    if job.output.is_file() or job.output.suffix:
        raise PlantingError(
            f"{job.output}: must be a folder, because the input has several shards: give the name of a folder"
        )
    check_no_other_files(job.output, shards.names, PlantingError)
    check_place(job.output, PlantingError)
    earlier = read_sidecar(sidecar_path(shards.home))
    if earlier is not None and earlier.shards is not None:
        raise PlantingError(f"{shards.home}: is planted already: plant into {earlier.input} instead")


def _check_equal_columns(all_paths: Sequence[ShardPaths], facts: Sequence[ShardFacts]) -> None:
    first = facts[0]
    for paths, shard in zip(all_paths, facts, strict=True):
        if (shard.text, shard.chat, shard.shape) != (first.text, first.chat, first.shape):
            raise PlantingError(
                f"{paths.source}: its text column or its kind of rows differs from {all_paths[0].name}: name the column"
            )

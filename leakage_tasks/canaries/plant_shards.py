"""Planting into data of many files: counted first, so that places are uniform over all of them together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.manifest import manifest_hash
from leakage_tasks.canaries.places import Gap, deal, gaps_of, stream_of
from leakage_tasks.canaries.plant_jobs import PlantJob, PlantReport
from leakage_tasks.canaries.shard_work import (
    Known,
    ShardPlace,
    ShardPlanting,
    Written,
    count,
    plant_one,
)
from leakage_tasks.canaries.sidecar import Sidecar, read_sidecar, sha256_of_all, sidecar_path, write_sidecar
from leakage_tasks.core.atomic import check_place, replacing
from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.partial_results import parts_folder
from leakage_tasks.core.permissions import open_to_readers
from leakage_tasks.core.workers import workers
from leakage_tasks.data import Layout, format_of, overlap
from leakage_tasks.data.shapes import shape_called
from leakage_tasks.data.shards import Shards, check_strangers, clear, make_folders, state_of


def plant_shards(
    job: PlantJob,
    shards: Shards,
    canaries: Sequence[Canary],
    planted: Sequence[Canary],
    jobs: int = 1,
    dask: str | None = None,
) -> PlantReport:
    """Copy all shards to the folder ``job.output`` with the canaries ``planted`` in them, ``jobs`` at once.

    Every row of all shards together is as likely to have a copy before it. Output and record do not depend on ``jobs``.
    A run that was ended goes on where it was. Raises LeakageError; the shards that are done by then are kept for that.
    """
    output = job.output.absolute()
    _check(job, shards)
    state = parts_folder(state_of(output))
    places = [ShardPlace(name, shards.path(name).absolute(), output / name, state, job.wanted) for name in shards.names]
    make_folders(output, shards.names, shards.root)
    copies = {canary.id: canary.repetitions for canary in planted}
    with workers(len(places), jobs, dask) as map_call:
        known: list[Known] = map_call(count, places)
        _check_alike(places, known)
        rows = [one.rows for one in known]
        gaps = gaps_of(copies, sum(rows), stream_of(job.seed, None))
        done: list[Written] = map_call(plant_one, _tasks(job, places, known, deal(gaps, rows), canaries, planted))
    record = _record(job, shards, known, done, planted, canaries)
    heights = {name: height for one in done for name, height in one.heights.items()}
    record = replace(record, heights=heights or None)
    with replacing(job.record_path, private=True) as beside:
        write_sidecar(record, beside)
    open_to_readers(job.record_path, (place.source for place in places), shards.root)
    clear(state, output)
    controls = sum(not canary.planted for canary in canaries)
    natural = len(canaries) - len(planted) - controls
    unused = job.wanted.label is None and any(canary.label is not None for canary in planted)
    again = (sum(one.again for one in known), sum(one.again for one in done))
    return PlantReport(
        job.output, job.record_path, record, controls, natural=natural, labels_unused=unused, again=again
    )


def _tasks(
    job: PlantJob,
    places: Sequence[ShardPlace],
    known: Sequence[Known],
    dealt: Sequence[Sequence[Gap]],
    canaries: Sequence[Canary],
    planted: Sequence[Canary],
) -> list[ShardPlanting]:
    labels: dict[str, Any] = {}
    for one in known:
        labels = one.labels | labels
    by_id = {canary.id: canary for canary in planted}
    tasks = []
    for place, one, gaps in zip(places, known, dealt, strict=True):
        told = json.dumps([manifest_hash(canaries), job.seed, job.wanted.role, job.wanted.prompt, gaps])
        key = hashlib.sha256(told.encode()).hexdigest()
        here = {name: by_id[name] for _, name in gaps}
        tasks.append(ShardPlanting(place, one, key, gaps, here, labels))
    return tasks


def _record(
    job: PlantJob,
    shards: Shards,
    known: Sequence[Known],
    done: Sequence[Written],
    planted: Sequence[Canary],
    canaries: Sequence[Canary],
) -> Sidecar:
    first = known[0]
    kind = format_of(shards.path(shards.names[0]))
    layout = Layout(sum(one.rows for one in known), (), first.text, first.label, chat=first.chat)
    layout.shape = shape_called(first.shape)
    layout = layout.for_copies(shards.root, job.wanted)
    map_call: dict[str, dict[str, Any]] = {
        name: {
            "rows": one.rows,
            "input_sha256": one.input_sha256,
            "output_sha256": written.output_sha256,
            "unpacked_sha256": one.unpacked_sha256,
        }
        for name, one, written in zip(shards.names, known, done, strict=True)
    }
    before, after = (
        sha256_of_all({name: hashes[part] for name, hashes in map_call.items()})
        for part in ("input_sha256", "output_sha256")
    )
    characters = sum(one.characters for one in known)
    characters += sum((len(canary.text) + kind.running) * canary.repetitions for canary in planted)
    copies = {canary.id: canary.repetitions for canary in planted}
    job.__dict__["kind"] = kind
    record = job.record(layout, (before, manifest_hash(canaries), after), copies, characters, {})
    return replace(record, input=shards.called, split=shards.split, shards=map_call)


def _check(job: PlantJob, shards: Shards) -> None:
    """Raise PlantingError for an output that cannot be written to, or holds what is no shard of this data."""
    for ours in (job.output, job.record_path):
        for theirs, what in ((shards.home, "input"), (job.manifest, "manifest")):
            if overlap(ours, theirs) and not (ours == job.record_path and theirs == shards.home):
                raise PlantingError(f"{ours}: would overwrite the {what} {theirs}: choose another output")
    if job.output.is_file() or job.output.suffix:
        raise PlantingError(f"{job.output}: must be a folder, as there are several shards: name one")
    check_strangers(job.output, shards.names, PlantingError)
    check_place(job.output, PlantingError)
    earlier = read_sidecar(sidecar_path(shards.home))
    if earlier is not None and earlier.shards is not None:
        raise PlantingError(f"{shards.home}: is planted already: plant into {earlier.input} instead")


def _check_alike(places: Sequence[ShardPlace], known: Sequence[Known]) -> None:
    first = known[0]
    for place, one in zip(places, known, strict=True):
        if (one.text, one.chat, one.shape) != (first.text, first.chat, first.shape):
            raise PlantingError(f"{place.source}: its texts are not those of {places[0].name}: name the column")

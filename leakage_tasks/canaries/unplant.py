"""Removal of planted canaries from data, based only on the record of the planting."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from leakage_tasks.canaries.places import Gap, check_copies, distribute_gaps, gaps_of, planted_rows, stream_of
from leakage_tasks.canaries.shard_work import Written, written_before
from leakage_tasks.canaries.sidecar import Sidecar, named, read_sidecar, sha256_of, sidecar_path
from leakage_tasks.core.atomic import check_place, replacing
from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.nouns import counted
from leakage_tasks.core.partial_results import parts_folder, removed_if_empty, save_part
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.core.workers import check_jobs, check_no_cluster, map_tasks
from leakage_tasks.data import Columns, check_output, format_of, overlap
from leakage_tasks.data.lines import open_source
from leakage_tasks.data.packed import codec_of
from leakage_tasks.data.shards import check_no_other_files, clear, earlier_run_note, new_folders, state_of


def remove(planted: Path, output: Path, *, jobs: int = 1, dask: str | None = None) -> str:
    """Copy planted data without the canaries that their record lists.

    The copy equals the data before planting: byte for byte if the data consist of lines (after decompression, if the
    files are compressed), else in rows and schema. The hash in the record verifies this.

    Args:
        planted: The planted data.
        output: The path of the copy.
        jobs: The number of shards processed in parallel.
        dask: The address of a dask scheduler for shards, or None.

    Returns:
        A one-line summary.

    Raises:
        LeakageError: If the data have no record or changed since planting, or if the copy does not match the record. No
            output is left behind.
    """
    check_jobs(jobs)
    planted, output = named(Path(planted)), named(Path(output))
    shown = output
    record = _read_record(planted)
    check_copies(sidecar_path(planted), sum(record.copies.values()))
    if record.turn not in (None, "new"):
        raise PlantingError(
            f"{planted}: its copies are in turns of existing conversations (--chat-position {record.turn}), and cannot "
            f"be removed: use the original data {record.input}"
        )
    _check_output(planted, output, record)
    if record.shards is None:
        check_no_cluster(dask)
        jobs, state = 1, None
    else:
        planted, output = planted.absolute(), output.absolute()
        state = parts_folder(state_of(output))
    records = record.by_shard()
    rows = [shard.input_rows for shard in records.values()]
    gaps = gaps_of(record.copies, record.input_rows, stream_of(record.seed, record.part))
    tasks = [
        Removal(planted / name, output / name, state and state / f"{name}.removed.json", shard, own)
        for (name, shard), own in zip(records.items(), distribute_gaps(gaps, rows), strict=True)
    ]
    folders = nullcontext() if record.shards is None else new_folders(output, record.shards, planted)
    with removed_if_empty(state), folders:
        done: list[Written] = map_tasks(remove_one, tasks, jobs, dask)
    if state is not None:
        clear(state, output)
    copies, canaries = sum(record.copies.values()), len(record.copies)
    return (
        f"{shown}: {counted(copies, 'copy')} of {counted(canaries, 'canary')} removed, equal to {record.input}"
        + earlier_run_note(sum(shard.again for shard in done), len(done))
    )


def _check_output(planted: Path, output: Path, record: Sidecar) -> None:
    """Raise PlantingError for an output that cannot be written, or that would overwrite the planted data."""
    if record.shards is None:
        check_output(planted, output)
        for path in (planted, sidecar_path(planted)):
            if overlap(output, path):
                raise PlantingError(f"{output}: would overwrite {path}: choose another output")
    else:
        if overlap(output, planted) or output.is_file():
            raise PlantingError(f"{output}: is a file, or holds {planted} or is in it: choose another output")
        check_no_other_files(output, record.shards, PlantingError)
    check_place(output, PlantingError)


@dataclass(frozen=True)
class Removal:
    """A planted shard, the path of its copy without canaries, and the file for the stored result or None."""

    planted: Path
    output: Path
    state: Path | None
    record: Sidecar
    """The record of this shard alone."""
    gaps: Sequence[Gap]


def remove_one(task: Removal) -> Written:
    """Write a shard without its canaries, unless an earlier run did."""
    key = ["remove", asdict(task.record), task.gaps]
    earlier = written_before(task.state, key, task.output)
    target = replacing(task.output, like=task.planted) if earlier is None else nullcontext(task.output)
    with target as beside, unchanged(task.planted):
        if sha256_of(task.planted) != task.record.output_sha256:
            raise PlantingError(f"{task.planted}: changed after planting, so the copies cannot be found: plant again")
        if earlier is not None:
            return earlier
        dropped = planted_rows(task.gaps, task.record.heights or {})
        digest = _restore(task.planted, beside, task.record, dropped) or sha256_of(beside)
    save_part(task.state, key, {"output_sha256": digest})
    return Written(digest)


def _restore(planted: Path, output: Path, record: Sidecar, dropped: set[int]) -> str | None:
    """Write ``planted`` without the rows ``dropped`` to ``output``. Return its hash if it was computed on the way.

    Raises PlantingError if the data do not match the record.
    """
    kind = format_of(planted)
    wanted = Columns(record.text_column, None, record.split or Columns.split, record.source_column)
    layout = kind.outline(planted, wanted)
    if not kind.exact and layout.rows != record.input_rows + len(dropped):
        raise _mismatch(planted, f"{layout.rows:,} rows instead of {record.input_rows + len(dropped):,}")
    kind.write_back(planted, output, layout, wanted, dropped)
    if not kind.exact:
        return None
    digest = _unpacked_hash(output)
    if digest != (record.unpacked_sha256 or record.input_sha256):
        raise _mismatch(planted, "the result differs from the original data")
    return digest if codec_of(output) is None else None


def _read_record(planted: Path) -> Sidecar:
    """Return the record next to planted data. Raises PlantingError if there is no record."""
    if not planted.exists():
        raise PlantingError(f"{planted}: no such file or folder: check the path")
    record = read_sidecar(sidecar_path(planted))
    if record is None:
        raise PlantingError(
            f"{planted}: no record {sidecar_path(planted).name} next to it, which lists the planted canaries: "
            "give the data that 'leakage plant' wrote"
        )
    return record


def _unpacked_hash(path: Path) -> str:
    if codec_of(path) is None:
        return sha256_of(path)
    with closing(open_source(path)) as stream:
        return hashlib.file_digest(cast(io.BufferedIOBase, stream), "sha256").hexdigest()


def _mismatch(planted: Path, why: str) -> PlantingError:
    return PlantingError(f"{planted}: the canaries cannot be removed ({why}): plant again into the original data")

"""Search of planted data file by file; the results for shards are stored until all shards are finished."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from leakage_tasks.canaries.manifest import manifest_hash
from leakage_tasks.canaries.occurrences import FileScan, Occurrences, scan
from leakage_tasks.canaries.sidecar import sha256_of
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.log import log
from leakage_tasks.core.partial_results import delete_parts, parts_folder
from leakage_tasks.core.signal_cleanup import temporary_folder
from leakage_tasks.core.workers import map_tasks
from leakage_tasks.data.hub import hub_shards, is_hub
from leakage_tasks.data.shards import Shards, shards_of


def scan_all(
    planted: Path, manifest: Path, task: FileScan, jobs: int, dask: str | None
) -> tuple[str | dict[str, str], Sequence[Occurrences]]:
    """Search planted data file by file.

    Args:
        planted: The planted data: a file, a folder of shards or a data set of the hub.
        manifest: The path of the manifest; stored results are next to it.
        task: The search to run on each file.
        jobs: The number of files searched in parallel.
        dask: The address of a dask scheduler, or None.

    Returns:
        The hash of the single file, or the hashes of shards by name; and the occurrences in each file.
    """
    if is_hub(planted):
        state = _state_of(planted, manifest)
        with temporary_folder() as scratch:
            remote: Shards = hub_shards(planted, task.wanted, state or scratch)
            return _scan_shards(remote, manifest, task, state, jobs, dask)
    shards = shards_of(planted)
    if shards is None:
        alone = scan(task)
        return alone.sha256, [alone]
    return _scan_shards(shards, manifest, task, _state_of(planted, manifest), jobs, dask)


def _scan_shards(
    shards: Shards, manifest: Path, task: FileScan, state: Path | None, jobs: int, dask: str | None
) -> tuple[dict[str, str], Sequence[Occurrences]]:
    # The hash does not cover natural secrets without a salt, so the file's modification time is part of the key.
    key = [manifest_hash(task.canaries), manifest.stat().st_mtime_ns, _content_of(task.tokenizer)]
    tasks = [
        replace(
            task,
            planted=shards.path(name).absolute(),
            state=None if state is None else state / f"{name}.scan.json",
            key=key,
        )
        for name in shards.names
    ]
    occurrences: list[Occurrences] = map_tasks(scan, tasks, jobs, dask)
    if state is not None:
        delete_parts(state)
    return dict(zip(shards.names, (file.sha256 for file in occurrences), strict=True)), occurrences


def _state_of(planted: Path, manifest: Path) -> Path | None:
    """Return the folder for stored results. It is next to the manifest, because the data's folder may be full or
    read-only."""
    name = hashlib.sha256(str(planted.absolute()).encode()).hexdigest()[:12]
    try:
        return parts_folder(manifest.with_name(f"{manifest.name}.{name}.leakage-verify"))
    except LeakageError as error:
        log.warning("leakage: warning: %s; until then an interrupted run starts again from the beginning", error)
        return None


def _content_of(tokenizer: str | None) -> str | None:
    return sha256_of(Path(tokenizer)) if tokenizer is not None and Path(tokenizer).exists() else tokenizer

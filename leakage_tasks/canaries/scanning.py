"""Search of planted data shard by shard; the results for shards are stored until all shards are finished."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from leakage_tasks.canaries.manifest import manifest_hash
from leakage_tasks.canaries.occurrences import FileScan, Occurrences, scan
from leakage_tasks.canaries.sidecar import sha256_of
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.log import log
from leakage_tasks.core.partial_results import delete_parts, parts_folder, removed_if_empty
from leakage_tasks.core.signal_cleanup import temporary_folder
from leakage_tasks.core.workers import check_jobs, check_no_cluster, map_tasks
from leakage_tasks.data.hub import hub_shards, is_hub
from leakage_tasks.data.shards import WHOLE, Shards, shards_of


def scan_all(planted: Path, manifest: Path, task: FileScan, jobs: int, dask: str | None) -> dict[str, Occurrences]:
    """Search planted data shard by shard.

    Args:
        planted: The planted data: a file, a folder of shards or a data set of the hub.
        manifest: The path of the manifest; stored results are next to it.
        task: The search to run on each shard.
        jobs: The number of shards searched in parallel.
        dask: The address of a dask scheduler, or None.

    Returns:
        The occurrences in each shard, by its name.
    """
    check_jobs(jobs)
    remote = is_hub(planted)
    shards = Shards(planted) if remote else shards_of(planted)
    if shards.alone and not remote:
        check_no_cluster(dask)
        return {WHOLE: scan(task)}
    state = _state_of(planted, manifest)
    # The hash does not cover natural secrets without a salt, so the file's modification time is part of the key.
    key = [manifest_hash(task.canaries), manifest.stat().st_mtime_ns, _content_of(task.tokenizer)]
    with removed_if_empty(state), temporary_folder() as scratch:
        if remote:
            shards = hub_shards(planted, task.wanted, state or scratch)
        tasks = [
            replace(task, planted=shards.path(name).absolute(), state=state and state / f"{name}.scan.json", key=key)
            for name in shards.names
        ]
        occurrences: list[Occurrences] = map_tasks(scan, tasks, jobs, dask)
    if state is not None:
        delete_parts(state)
    return dict(zip(shards.names, occurrences, strict=True))


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

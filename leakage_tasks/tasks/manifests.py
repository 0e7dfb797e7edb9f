"""Manifests that the tasks of a run have read. Other tasks and attacks get them from here, so that none is read
twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from leakage_tasks.canaries import Canary, read_manifest
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.stable_inputs import FileStamp, file_stamp


@dataclass(frozen=True, eq=False)
class ReadManifest:
    """The canaries of a manifest; they stay in memory as long as the task that read them."""

    path: str | None
    canaries: tuple[Canary, ...]


_READ: WeakValueDictionary[tuple[str | None, str], ReadManifest] = WeakValueDictionary()
_BY_FILE: WeakValueDictionary[tuple[str, FileStamp], ReadManifest] = WeakValueDictionary()


def read_once(path: str) -> ReadManifest:
    """Read a manifest, unless a task of this process holds it and the file is unchanged. Raises ManifestError."""
    stamp = file_stamp(Path(path))
    read = None if stamp is None else _BY_FILE.get((path, stamp))
    if read is None:
        read = ReadManifest(path, tuple(read_manifest(path)))
        if stamp is not None:
            _BY_FILE[path, stamp] = read
    return read


def share_manifest(read: ReadManifest, attacked_sha256: str) -> None:
    """Make the canaries that a task has read or, without a manifest, built in available to its attacks.

    They are available while the task holds ``read``. Requests name the path and the hash of the attacked canaries. The
    path alone is not enough, because a file may change between two runs of one process.
    """
    _READ[read.path, attacked_sha256] = read


def manifest_of(task_settings: Mapping[str, Any]) -> tuple[Canary, ...]:
    """Return all canaries of the manifest that an attack's request names, or the built-in canaries.

    A manifest is read only if no task of this process has read it. Raises LeakageError for built-in canaries of no task
    of this process.
    """
    path = task_settings["canaries"]
    known = _READ.get((path, task_settings["manifest"]))
    if known is not None:
        return known.canaries
    if path is None:
        raise LeakageError("a request without canaries=… needs the task that made it in this process: pass canaries=…")
    return tuple(read_manifest(path))

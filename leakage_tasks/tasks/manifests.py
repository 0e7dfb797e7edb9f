"""Manifests that the tasks of a run have read. Attacks get them from here, so that no manifest is read twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from leakage_tasks.canaries import Canary, read_manifest
from leakage_tasks.core.errors import LeakageError


@dataclass(frozen=True, eq=False)
class ReadManifest:
    """The canaries of a manifest; they stay in memory as long as the task that read them."""

    path: str | None
    canaries: tuple[Canary, ...]


_READ: WeakValueDictionary[tuple[str | None, str], ReadManifest] = WeakValueDictionary()


def share_manifest(path: str | None, canaries: Sequence[Canary], attacked_sha256: str) -> ReadManifest:
    """Make the canaries that a task has read or, without a manifest, built in available to its attacks.

    They are available while the task holds the result. Requests name the path and the hash of the attacked canaries.
    The path alone is not enough, because a file may change between two runs of one process.
    """
    read = ReadManifest(path, tuple(canaries))
    _READ[path, attacked_sha256] = read
    return read


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

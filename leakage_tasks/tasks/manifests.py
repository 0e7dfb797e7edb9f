"""Manifests that the tasks of a run have read. Attacks get them from here, so that no manifest is read twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from leakage_tasks.canaries import Canary, read_manifest


@dataclass(frozen=True, eq=False)
class ReadManifest:
    """The canaries of a manifest; they stay in memory as long as the task that read them."""

    path: str
    canaries: tuple[Canary, ...]


_READ: WeakValueDictionary[tuple[str, str], ReadManifest] = WeakValueDictionary()


def share_manifest(path: str | None, canaries: Sequence[Canary], attacked_sha256: str) -> ReadManifest | None:
    """Make a manifest that a task has read available to its attacks; None if the task has no manifest.

    It is available while the task holds the result. Requests name the path and the hash of the attacked canaries. The
    path alone is not enough, because a file may change between two runs of one process.
    """
    if path is None:
        return None
    read = ReadManifest(path, tuple(canaries))
    _READ[path, attacked_sha256] = read
    return read


def manifest_of(task_settings: Mapping[str, Any]) -> tuple[Canary, ...]:
    """Return all canaries of the manifest that an attack's request names; empty for the built-in canaries.

    The manifest is read only if no task of this process has read it.
    """
    path = task_settings["canaries"]
    if path is None:
        return ()
    known = _READ.get((path, task_settings["manifest"]))
    return tuple(read_manifest(path)) if known is None else known.canaries

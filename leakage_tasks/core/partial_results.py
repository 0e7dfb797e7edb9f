"""Results of the parts of a long run, stored in one file each until the run is complete, so that it can be resumed.

Each part has a key, which must contain everything that its result depends on. A file with another key, of another
version, or with invalid content is ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from leakage_tasks.core.atomic import failure_of, write_text
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.inputs import parse_json, read_bytes
from leakage_tasks.core.version import __version__

_OWNER = 0o700
_KEY = "key"


def parts_folder(folder: Path) -> Path:
    """Create the folder for partial results, accessible only to its owner, or accept an existing folder; return its
    absolute path.

    Raises LeakageError if it belongs to another user or cannot be created.
    """
    try:
        folder.mkdir(_OWNER, parents=True, exist_ok=True)
        owner = folder.stat().st_uid
    except OSError as error:
        raise LeakageError(str(failure_of(error, folder, folder.parent))) from None
    if owner != os.geteuid():
        raise LeakageError(f"{folder}: belongs to another user, whose results are not taken: have it removed first")
    return folder.absolute()


@contextlib.contextmanager
def removed_if_empty(folder: Path | None) -> Iterator[None]:
    """After an error in the block, remove the folder if it is empty."""
    try:
        yield
    except BaseException:
        if folder is not None:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def load_part(path: Path | None, key: Any) -> dict[str, Any] | None:
    """Return the result that an earlier run stored at this path under this JSON-compatible key, or None."""
    if path is None:
        return None
    try:
        stored = parse_json(read_bytes(path))
    except (OSError, ValueError):
        return None
    return stored if isinstance(stored, dict) and stored.pop(_KEY, None) == _hash_of(key) else None


def save_part(path: Path | None, key: Any, result: Mapping[str, Any]) -> None:
    """Store a result atomically and readable only by its owner, unless ``path`` is None.

    Raises LeakageError if the write fails.
    """
    if path is None:
        return
    try:
        path.parent.mkdir(_OWNER, parents=True, exist_ok=True)
    except OSError as error:
        raise LeakageError(str(failure_of(error, path, path.parent))) from None
    write_text(path, json.dumps({_KEY: _hash_of(key), **result}) + "\n", private=True)


def delete_parts(folder: Path) -> None:
    """Delete the partial results of a complete run."""
    shutil.rmtree(folder, ignore_errors=True)


def _hash_of(key: Any) -> str:
    return hashlib.sha256(json.dumps([__version__, key]).encode()).hexdigest()

"""What parts of a long run found out, kept in a file each until all are done, so that a run that was ended goes on.

A part is known again by its key, which has to hold all that its result follows from. What another key, another version
or a damaged file says is as if it were not there.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakage_tasks.core.atomic import failure_of, write_text
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.inputs import parse_json, read_bytes
from leakage_tasks.core.version import __version__

_OWNER = 0o700
_KEY = "key"


def keeping_folder(folder: Path) -> Path:
    """Make the folder, open to its owner alone, or take one of an earlier run; its absolute path.

    Raises LeakageError for one of another user, and where none can be made.
    """
    try:
        folder.mkdir(_OWNER, parents=True, exist_ok=True)
        owner = folder.stat().st_uid
    except OSError as error:
        raise LeakageError(str(failure_of(error, folder, folder.parent))) from None
    if owner != os.geteuid():
        raise LeakageError(f"{folder}: belongs to another user, whose results are not taken: have it removed first")
    return folder.absolute()


def kept(place: Path, key: Any) -> dict[str, Any] | None:
    """What an earlier run kept there under that key, which JSON can hold; None for nothing."""
    try:
        found = parse_json(read_bytes(place))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.pop(_KEY, None) == _hash_of(key) else None


def keep(place: Path, key: Any, found: Mapping[str, Any]) -> None:
    """Keep a result whole or not at all, for its owner's eyes. Raises LeakageError where the disk does not take it."""
    try:
        place.parent.mkdir(_OWNER, parents=True, exist_ok=True)
    except OSError as error:
        raise LeakageError(str(failure_of(error, place, place.parent))) from None
    write_text(place, json.dumps({_KEY: _hash_of(key), **found}) + "\n", private=True)


def forget(folder: Path) -> None:
    """Take away what was kept, once all is done."""
    shutil.rmtree(folder, ignore_errors=True)


def _hash_of(key: Any) -> str:
    return hashlib.sha256(json.dumps([__version__, key]).encode()).hexdigest()

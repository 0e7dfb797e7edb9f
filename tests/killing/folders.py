"""What a folder holds, such that two folders can be compared; and who can read it."""

from __future__ import annotations

import hashlib
import json
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from leakage_tasks.core.signal_cleanup import PREFIX, SUFFIX

VOLATILE = {"seconds", "machine", "base_model", "base_model_name_or_path", "command", "run", "reused"}
"""Fields of records that say when, where, how long, and with what there was."""
SALT = re.compile(rb', "salt": "[0-9a-f]{32}"')
"""What no seed decides in manifests of natural secrets."""
NAMED_BY_TIME = "results"
"""Where the harness writes, with the time in the names."""


def contents(place: Path) -> dict[str, str]:
    """A hash of each file in ``place``, or of that itself, by its name there; nothing where there is none."""
    files = sorted(place.rglob("*")) if place.is_dir() else [place]
    return {str(each.relative_to(place)): _hash(each) for each in files if each.is_file() and not _is_lock(each)}


def figures(out: Path) -> dict[str, Any]:
    """What the harness found, by task, as its results files in ``out`` say."""
    found: dict[str, Any] = {}
    for path in sorted((out / NAMED_BY_TIME).rglob("results_*.json")):
        # One that the harness did not get to the end of is its own.
        with suppress(ValueError):
            found.update(json.loads(path.read_text())["results"])
    return found


def half_written(folder: Path) -> list[Path]:
    """Workshops in a folder, at any depth."""
    return [each for each in folder.rglob(f"{PREFIX}*{SUFFIX}") if each.is_dir()]


def open_to_others(folder: Path) -> list[str]:
    """Files in ``folder`` that others can read, given that they can look into ``folder``."""
    found = []
    try:
        for each in folder.iterdir():
            mode = each.lstat().st_mode
            if stat.S_ISDIR(mode):
                found += open_to_others(each) if mode & stat.S_IXOTH else []
            elif stat.S_ISREG(mode) and mode & stat.S_IROTH and not _is_lock(each):
                found.append(str(each))
    except FileNotFoundError:
        pass
    return found


def _is_lock(path: Path) -> bool:
    return path.suffix == ".lock"


def _hash(path: Path) -> str:
    data = SALT.sub(b"", path.read_bytes())
    if path.suffix == ".json":
        with suppress(ValueError):
            data = json.dumps(_steady(json.loads(data)), sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()


def _steady(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _steady(value) for name, value in data.items() if name not in VOLATILE}
    return [_steady(each) for each in data] if isinstance(data, list) else data

"""Folders that a command fills anew: its own ones, known by a marker, and nobody else's."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from leakage_tasks.core.atomic import write_text
from leakage_tasks.core.errors import LeakageError

MARKER = ".lm-eval-leakage"
"""The file that says which command a folder is from."""


def own_folder(folder: Path, command: str, names: Collection[str]) -> None:
    """Make a folder for ``command``'s files, or take one that it made before, whatever was added to it since.

    ``names`` are all the entries of such a folder of before there were markers, by which it is known. Raises
    LeakageError for one that holds what the command did not write, and where none can be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = {path.name for path in folder.iterdir()}
        marker = folder / MARKER
        marked = marker.is_file() and marker.read_text(encoding="utf-8", errors="replace").strip() == command
    except OSError as error:
        raise LeakageError(f"{folder}: cannot be made ({error.strerror}): choose another --output") from None
    if there and not marked and there != set(names):
        first = min(there - {MARKER}, default=MARKER)
        raise LeakageError(
            f"{folder}: holds {first!r}, and no sign that '{command}' wrote it: choose another --output, or an empty "
            "folder"
        )
    if not marked:
        write_text(marker, f"{command}\n")

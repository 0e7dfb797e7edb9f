"""Output folders: a command reuses its own folder, which has a marker file, and refuses every other folder with
files."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from leakage_tasks.core.atomic import write_text
from leakage_tasks.core.errors import LeakageError

MARKER = ".lm-eval-leakage"
"""Name of the marker file, which holds the command that made the folder."""


def claim_output_folder(folder: Path, command: str, names: Collection[str]) -> None:
    """Create the output folder of ``command``, or reuse the folder of an earlier run, even if it has additional files.

    ``names`` are the complete entries of such a folder from versions without marker files. Raises LeakageError if the
    folder holds files that the command did not write, or cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names_there = {path.name for path in folder.iterdir()}
        marker = folder / MARKER
        marked = marker.is_file() and marker.read_text(encoding="utf-8", errors="replace").strip() == command
    except OSError as error:
        raise LeakageError(f"{folder}: cannot be made ({error.strerror}): choose another --output") from None
    if names_there and not marked and names_there != set(names):
        first = min(names_there - {MARKER}, default=MARKER)
        raise LeakageError(
            f"{folder}: holds {first!r}, and no sign that '{command}' wrote it: choose another --output, or an empty "
            "folder"
        )
    if not marked:
        write_text(marker, f"{command}\n")

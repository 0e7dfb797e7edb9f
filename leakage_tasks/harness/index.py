"""The index in which a ``TaskManager`` finds tasks, and the addition of tasks to it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from leakage_tasks.core.log import log
from leakage_tasks.harness.places import task_folder


def index_of(manager: Any) -> dict[str, Any]:
    """Return the task entries of a ``TaskManager`` by name."""
    # Imported late, because the module needs an imported harness to know its generation.
    entries: dict[str, Any] = importlib.import_module("leakage_tasks.harness.generation").index_of(manager)
    return entries


def ours_in(index: dict[str, Any]) -> list[str]:
    """Return the names of this package's tasks in an index: their YAML file is in our folder and has the task's
    name."""
    names = [path.stem for path in task_folder().glob("*.yaml")]
    return [name for name in names if name in index and within(index[name], task_folder())]


def within(entry: Any, folder: Path) -> bool:
    """Return True if the YAML file of an index entry is in a folder."""
    return entry.yaml_path is not None and Path(entry.yaml_path).resolve().is_relative_to(folder.resolve())


def merge_index(manager: Any, extra: Any, defaults: Path) -> None:
    """Add the tasks of ``extra`` with a priority above the harness' own tasks and below ``--include_path``."""
    index = index_of(manager)
    placed = set()
    for name, entry in index_of(extra).items():
        present = index.get(name)
        wins = present is None or within(present, defaults)
        if present is not None:
            first, last = (present, entry) if wins else (entry, present)
            log.warning("Task '%s' from %s overrides existing task from %s", name, last.yaml_path, first.yaml_path)
        if wins:
            index[name] = entry
            placed.add(name)
    for listing in ("all_tasks", "all_subtasks", "all_groups", "all_tags"):
        names = getattr(manager, listing)
        names[:] = sorted((set(names) - placed) | placed.intersection(getattr(extra, listing)))

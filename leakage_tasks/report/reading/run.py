"""One model and what the harness found out about it, as read from its results files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from leakage_tasks.report.reading.declared import Declared

STAMP = re.compile(r"_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.json$")
"""How the harness ends the name of a results file: the time of writing, which the files of samples share."""
Values = Mapping[str, Mapping[str, float | None]]
"""By column (the harness' filter), by metric."""


@dataclass(frozen=True)
class TaskResult:
    """What one task found on one model.

    ``values`` and ``errors`` (the harness' standard errors) are by column and metric, None where there is none;
    ``samples`` how many documents were used; ``higher_is_better`` is by metric; ``declared`` is None for tasks that
    declare nothing about themselves, the harness' own among them. ``parents`` are the groups it is a member of,
    ``date`` seconds since 1970 of its file.
    """

    task: str
    values: Values
    errors: Values
    higher_is_better: Mapping[str, bool | None]
    samples: int | None
    declared: Declared | None
    file: Path
    shots: int | None = None
    parents: tuple[str, ...] = ()
    date: float = 0.0

    @property
    def is_leakage(self) -> bool:
        """Whether its figures are about leakage rather than about usefulness."""
        return self.declared is not None and self.declared.measures == "leakage"

    @property
    def answered(self) -> bool:
        """Whether it has any figure that is not null."""
        return any(value is not None for values in self.values.values() for value in values.values())

    @property
    def logged(self) -> Path | None:
        """The file of its samples, written beside the results by the same run; None without one."""
        stamp = STAMP.search(self.file.name)
        path = self.file.with_name(f"samples_{self.task}_{stamp[1]}.jsonl") if stamp else None
        return path if path is not None and path.is_file() else None


@dataclass(frozen=True)
class Run:
    """One model and all that was found out about it, of one results file or several with different tasks.

    ``model`` is the harness' name of the kind of model (``hf``), ``source`` the model itself (a folder or a hub's
    name), ``arguments`` all its arguments, ``date`` seconds since 1970 of the newest file, ``config`` the harness'
    account of the run, ``versions`` those of harness and transformers.
    """

    model: str
    source: str
    arguments: Mapping[str, Any]
    tasks: Mapping[str, TaskResult]
    files: tuple[Path, ...]
    date: float = 0.0
    config: Mapping[str, Any] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    name: str = ""

    @property
    def time(self) -> datetime | None:
        """When its newest file was written, in UTC; None where that is not known."""
        return datetime.fromtimestamp(self.date, UTC) if self.date > 0 else None

"""One model and what the harness found out about it, as read from its results files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.core.inputs import parse_json, read_text
from leakage_tasks.metrics.metric import Direction, MetricSpec, limited_words
from leakage_tasks.report.load.declared import Declared
from leakage_tasks.report.load.validate import printable

STAMP = re.compile(r"_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.json$")
"""How the harness ends the name of a results file: the time of writing, which the files of samples share."""
ADDED = ("peft", "prompt", "delta")
"""Arguments that make another model of a model."""
Values = Mapping[str, Mapping[str, float | None]]
"""By column (the harness' filter), by metric."""


@dataclass(frozen=True)
class TaskResult:
    """What one task found on one model."""

    task: str
    """Its name."""
    values: Values
    """By column and metric, None where there is none."""
    errors: Values
    """The harness' standard errors, likewise."""
    higher_is_better: Mapping[str, bool | None]
    """By metric, by the word of the harness."""
    samples: int | None
    """How many documents were used."""
    declared: Declared | None
    """None for tasks that declare nothing about themselves, the harness' own among them."""
    file: Path
    """The results file it is read from."""
    shots: int | None = None
    """How many examples stood before each document, where the harness tells."""
    limited: tuple[int, int] | None = None
    """The number of documents of the run, and of all, if ``--limit`` or ``--samples`` left some out."""
    parents: tuple[str, ...] = ()
    """The groups it is a member of."""
    date: float = 0.0
    """Seconds since 1970 of its file; 0 where that is not known."""
    predicted_only: bool = False
    """Whether the run had ``--predict_only``, so that the harness scored nothing."""

    @property
    def is_leakage(self) -> bool:
        """Whether its figures are about leakage rather than about usefulness."""
        return self.declared is not None and self.declared.measures == "leakage"

    @property
    def scoring_name(self) -> str:
        """The name of the scoring of its samples: its own, or that of the task whose class it inherits."""
        return self.task if self.declared is None or not self.declared.scoring else self.declared.scoring

    @property
    def no_headline(self) -> str:
        """Why none of its figures stands for the model; nothing if they may. Older results do not declare a limit."""
        if self.declared is None or not self.answered:
            return ""
        if self.declared.no_headline or self.limited is None or not self.is_leakage:
            return self.declared.no_headline
        return limited_words(*self.limited, "documents")

    @property
    def rows(self) -> Mapping[str, MetricSpec]:
        """What its metrics declared about themselves, by name; nothing where they did not."""
        return {} if self.declared is None else self.declared.rows

    @property
    def tested(self) -> Mapping[str, Any]:
        """What its figures rest on; nothing where it does not say."""
        return {} if self.declared is None else self.declared.tested

    @property
    def claimed(self) -> bool:
        """Whether nothing but the manifest says that its canaries were planted; nobody plants natural secrets."""
        natural = self.tested.get("kinds") == ["natural"]
        return bool(self.tested.get("planted")) and not natural and self.tested.get("planting") != "proven"

    @property
    def headline(self) -> Mapping[str, float | None]:
        """The values in the headline column."""
        return self.values.get(HEADLINE, {})

    def better(self, metric: str) -> Direction:
        """What is better by the harness' word; None where it does not say."""
        higher = self.higher_is_better.get(metric)
        return None if higher is None else "higher" if higher else "lower"

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
    """One model and all that was found out about it, of one results file or several with different tasks."""

    model: str
    """The harness' name of the kind of model (``hf``)."""
    source: str
    """The model itself: a folder or a hub's name."""
    arguments: Mapping[str, Any]
    """All the model's arguments."""
    tasks: Mapping[str, TaskResult]
    """What each task found, by its name."""
    files: tuple[Path, ...]
    """The results files, the newest last."""
    date: float = 0.0
    """Seconds since 1970 of the newest file; 0 where that is not known."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The harness' account of the run."""
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The harness' account of each task."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Those of harness and transformers."""
    name: str = ""
    """One that no other run beside it has."""

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The base model, and the adapter, soft prompt or delta on it, if there is one."""
        added = [str(self.arguments[name]) for name in ADDED if self.arguments.get(name)]
        base = None if "peft" in self.arguments else _base_of(self.source)
        own = (self.source,) if base is None else (base, self.source)
        return *own, *map(printable, added)

    @property
    def whole(self) -> str:
        """The parts of the model as one name."""
        return " + ".join(self.parts)

    def scored_as(self, task: str) -> TaskResult | None:
        """Return the result of ``task``, or of the first task that inherits its scoring."""
        inheriting = (each for each in self.tasks.values() if each.scoring_name == task)
        return self.tasks.get(task) or next(inheriting, None)

    @property
    def time(self) -> datetime | None:
        """When its newest file was written, in UTC; None where that is not known."""
        return datetime.fromtimestamp(self.date, UTC) if self.date > 0 else None


def _base_of(source: str) -> str | None:
    """Return the base model that PEFT's file in the folder of an adapter names, None for anything but an adapter."""
    try:
        given = parse_json(read_text(Path(source) / "adapter_config.json"))
    except (OSError, ValueError):
        return None
    base = given.get("base_model_name_or_path") if isinstance(given, dict) else None
    return printable(base) if isinstance(base, str) and base else None

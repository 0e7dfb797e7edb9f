"""Results of the harness on one model, as read from results files."""

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
from leakage_tasks.core.task_names import HELDOUT
from leakage_tasks.metrics.metric import Direction, MetricSpec, limited_words
from leakage_tasks.report.load.declared import Declared
from leakage_tasks.report.load.validate import printable

STAMP = re.compile(r"_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.json$")
"""The end of a results file's name: the time of writing, which files of samples share."""
SHOWN_HASH = 6
"""Number of shown digits of a hash that tells data sets apart."""
ADDED = ("peft", "prompt", "delta")
"""Model arguments that add something to a base model."""
Values = Mapping[str, Mapping[str, float | None]]
"""Values by column (the harness' filter), then by metric."""


@dataclass(frozen=True)
class TaskResult:
    """The results of one task on one model."""

    task: str
    """The task's name."""
    values: Values
    """Values by column and metric; None for an empty value."""
    errors: Values
    """Standard errors of the harness, by column and metric."""
    higher_is_better: Mapping[str, bool | None]
    """The better direction by metric, as the harness declares it."""
    samples: int | None
    """The number of documents used."""
    declared: Declared | None
    """The task's declaration; None for tasks without one, such as the harness' own."""
    file: Path
    """The results file."""
    shots: int | None = None
    """The number of few-shot examples, if the harness records it."""
    limited: tuple[int, int] | None = None
    """The numbers of documents used and available, if ``--limit`` or ``--samples`` left some out."""
    parents: tuple[str, ...] = ()
    """The groups that contain the task."""
    date: float = 0.0
    """Seconds since 1970 of the file; 0 if unknown."""
    predicted_only: bool = False
    """True if the run had ``--predict_only``, so the harness scored nothing."""
    documents_hash: str = ""
    """The harness' hash of the documents; empty without ``--log_samples``."""

    @property
    def is_leakage(self) -> bool:
        """True if the values measure leakage, not usefulness."""
        return self.declared is not None and self.declared.measures == "leakage"

    @property
    def conditions(self) -> str:
        """Conditions under which values of usefulness may be compared: the number of examples in the prompt, or the
        user's data by hash. Empty for leakage, and if they are unknown."""
        if self.is_leakage:
            return ""
        if self.declared is None and self.task != HELDOUT:
            return "" if self.shots is None else f"{self.shots}-shot"
        data = self.documents_hash if self.declared is None else str(self.declared.protocol.get("data", ""))
        return f"data {data[:SHOWN_HASH]}" if data else ""

    @property
    def scoring_name(self) -> str:
        """The name of its scoring: its own, or that of the task whose class it inherits."""
        return self.task if self.declared is None or not self.declared.scoring else self.declared.scoring

    @property
    def no_headline(self) -> str:
        """The reason why it has no primary metric, or an empty text. Older results do not declare ``--limit``."""
        if self.declared is None or not self.answered:
            return ""
        if self.declared.no_headline or self.limited is None or not self.is_leakage:
            return self.declared.no_headline
        return limited_words(*self.limited, "documents")

    @property
    def rows(self) -> Mapping[str, MetricSpec]:
        """The declared metrics by name; empty without a declaration."""
        return {} if self.declared is None else self.declared.rows

    @property
    def tested(self) -> Mapping[str, Any]:
        """The declared data behind the values; empty without a declaration."""
        return {} if self.declared is None else self.declared.tested

    @property
    def claimed(self) -> bool:
        """True if only the manifest states that its canaries were planted; natural secrets are never planted."""
        natural = self.tested.get("kinds") == ["natural"]
        return bool(self.tested.get("planted")) and not natural and self.tested.get("planting") != "proven"

    @property
    def headline(self) -> Mapping[str, float | None]:
        """The values in the main column (:data:`HEADLINE`)."""
        return self.values.get(HEADLINE, {})

    def better(self, metric: str) -> Direction:
        """Return the better direction that the harness declares, or None."""
        higher = self.higher_is_better.get(metric)
        return None if higher is None else "higher" if higher else "lower"

    @property
    def answered(self) -> bool:
        """True if any value is not null."""
        return any(value is not None for values in self.values.values() for value in values.values())

    @property
    def logged(self) -> Path | None:
        """The file of samples that the run wrote next to the results, or None."""
        stamp = STAMP.search(self.file.name)
        path = self.file.with_name(f"samples_{self.task}_{stamp[1]}.jsonl") if stamp else None
        return path if path is not None and path.is_file() else None


@dataclass(frozen=True)
class Run:
    """One model with all its results, from one results file or from several with different tasks."""

    model: str
    """The harness' name for the kind of model, such as ``hf``."""
    source: str
    """The model: a folder or a name on the hub."""
    arguments: Mapping[str, Any]
    """All arguments of the model."""
    tasks: Mapping[str, TaskResult]
    """The result of each task, by name."""
    files: tuple[Path, ...]
    """The results files, the newest last."""
    date: float = 0.0
    """Seconds since 1970 of the newest file; 0 if unknown."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The harness' record of the run."""
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The harness' record of each task."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The versions of the harness and of transformers."""
    name: str = ""
    """A name that is unique among the runs of a report."""

    @property
    def recorded_parts(self) -> tuple[str, ...]:
        """The model, followed by its adapter, soft prompt or delta, if any, as the results name them."""
        added = [str(self.arguments[name]) for name in ADDED if self.arguments.get(name)]
        return self.source, *map(printable, added)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The recorded parts, after the base model if the model is an adapter whose files are there and name it."""
        base = None if "peft" in self.arguments else adapter_base(Path(self.source))
        return (printable(base), *self.recorded_parts) if base else self.recorded_parts

    @property
    def whole(self) -> str:
        """The parts joined to one name."""
        return " + ".join(self.parts)

    def scored_as(self, task: str) -> TaskResult | None:
        """Return the result of ``task``, or of the first task that inherits its scoring."""
        inheriting = (result for result in self.tasks.values() if result.scoring_name == task)
        return self.tasks.get(task) or next(inheriting, None)

    @property
    def time(self) -> datetime | None:
        """The time when the newest file was written, in UTC; None if unknown."""
        return datetime.fromtimestamp(self.date, UTC) if self.date > 0 else None


def adapter_base(folder: Path) -> str | None:
    """Return the base model that an adapter's PEFT file names, "" if it names none; None for another folder."""
    settings = _settings(folder / "adapter_config.json")
    if settings is None:
        return None
    base = settings.get("base_model_name_or_path")
    return base if isinstance(base, str) else ""


def is_encoder_decoder(folder: Path) -> bool:
    """Return True if the configuration of a model in a folder says so; False without such a file."""
    return (_settings(folder / "config.json") or {}).get("is_encoder_decoder") is True


def _settings(file: Path) -> dict[str, Any] | None:
    """Return the content of a JSON file, {} if it is no object; None without such a file."""
    try:
        settings = parse_json(read_text(file))
    except (OSError, ValueError):
        return None
    return settings if isinstance(settings, dict) else {}

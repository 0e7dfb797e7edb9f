"""What our harness tasks share: documents that are there already, one request each, metrics that declare themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval.api.task import Task
from lm_eval.config.task import TaskConfig
from lm_eval.filters import build_filter_ensemble

from leakage_tasks.errors import OptionError
from leakage_tasks.metrics.declared import Metric
from leakage_tasks.notices import warn_once


class LocalTask(Task):
    """A task over documents of its own. Subclasses set ``_docs`` before they are asked for any.

    ``METRICS`` are its rows; ``DOCUMENTS`` says in messages what its documents are, ``SOURCE`` what they come from.
    """

    METRICS: list[Metric]
    DOCUMENTS: str
    SOURCE: str
    _docs: list[dict[str, Any]]

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        given = {name: value for name, value in (config or {}).items() if name != "class"}
        self._config = TaskConfig(**{**given, "output_type": self.OUTPUT_TYPE, "num_fewshot": 0})
        self.metadata: Mapping[str, Any] = self._config.metadata or {}
        self.VERSION = self.metadata.get("version", 0)
        self._instances = None
        self._training_docs = self._fewshot_docs = None
        self._filters = [build_filter_ensemble("none", [["take_first", None]])]

    def has_training_docs(self) -> bool:
        """The documents are for testing only."""
        return False

    def has_validation_docs(self) -> bool:
        """The documents are for testing only."""
        return False

    def has_test_docs(self) -> bool:
        """Every document is for testing."""
        return True

    def test_docs(self) -> list[dict[str, Any]]:
        """The documents."""
        return self._docs

    def fewshot_context(self, doc: Any, num_fewshot: int = 0, **settings: Any) -> str:
        """The text; it takes no examples and no chat template."""
        if settings.get("apply_chat_template"):
            warn_once(f"{self.task_name} takes plain text; the chat template is not applied to it")
        return self.doc_to_text(doc)

    def build_all_requests(self, *, limit: int | None = None, rank: int = 0, world_size: int = 1, **rest: Any) -> None:
        """See the harness. Every process needs a document; raises OptionError on all of them if there are too few."""
        number = len(rest.get("samples") or self._docs[:limit])
        if number < world_size:
            raise OptionError(
                f"{self.task_name}: {number} {self.DOCUMENTS} for {world_size} processes, each needs one: "
                f"use {number} process(es) or more {self.DOCUMENTS}"
            )
        if rest.pop("cache_requests", False):
            warn_once(
                f"{self.task_name}: requests are not cached, since the harness' cache does not tell {self.SOURCE} apart"
            )
        super().build_all_requests(limit=limit, rank=rank, world_size=world_size, **rest)

    def aggregation(self) -> dict[str, Any]:
        """Aggregations by metric."""
        return {metric.name: metric.aggregate for metric in self.METRICS}

    def higher_is_better(self) -> dict[str, Any]:
        """Directions by metric: the defender's where it leaks, the user's where it is useful; None for counts."""
        return {metric.name: metric.higher_is_better for metric in self.METRICS}

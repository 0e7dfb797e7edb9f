"""Version 0.5 of the harness: a task has scorers; it computes the values of its documents and aggregates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.task import Task
from lm_eval.config.task import TaskConfig
from lm_eval.scorers import LLScorer, ScoredDoc


class HarnessTask(Task):
    """The part of a task that the harness calls; subclasses have the members listed in ``v0_4.HarnessTask``."""

    OUTPUT_TYPE: Any
    spare = False

    def __init__(self, config: Mapping[str, Any]) -> None:
        # The harness needs a name, and tasks made by hand have no name.
        self._config = TaskConfig(**{"task": "", **config, "output_type": self.OUTPUT_TYPE, "num_fewshot": 0})
        self.VERSION = (self._config.metadata or {}).get("version", 0)
        self._instances: Any = None
        self._scorers: list[Any] = []
        self._fewshot_seed = None

    @property
    def _qualified_name(self) -> str:
        """The task's own name, also in groups, so that both versions name results equally."""
        return str(self.task_name)

    def set_num_fewshot(self, num_fewshot: int) -> None:
        """Report the option ``num_fewshot``, which such tasks ignore."""
        if num_fewshot:
            self.not_taken("num_fewshot", num_fewshot)

    def get_config(self, key: str) -> Any:
        """Return a value that makes the harness pass ``--gen_kwargs``, which it passes only to tasks that generate."""
        return "generate_until" if key == "output_type" else super().get_config(key)

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """Set an option of the run, or report that such tasks ignore it."""
        if key != "generation_kwargs":
            super().set_config(key, value, update)
        elif value:
            self.not_taken(key, value)

    def set_repeats(self, repeats: int) -> None:
        """Ignore ``repeats``, because equal requests are answered once."""

    def override_metric(self, metric_name: str) -> None:
        """Ignore ``metric_name``, because such tasks have their own metrics."""

    def construct_requests(self, doc: Any, ctx: Any, *, doc_id: int, **kwargs: Any) -> Any:
        """Return the request of a document."""
        return self.request_of(doc, ctx, doc_id)

    def doc_iterator(self, *, rank: int = 0, limit: int | None = None, world_size: int = 1, samples: Any = None) -> Any:
        """Yield each document with its number; with ``--samples``, the number counts only the selected documents."""
        docs = list(self.eval_docs)
        chosen = [doc for index, doc in enumerate(docs) if index in set(samples)] if samples else docs[:limit]
        return ((index, doc) for index, doc in enumerate(chosen) if index % world_size == rank)

    def apply_filters(self) -> None:
        """Compute the value of every column from the answers."""
        for instance in self._instances:
            instance.filtered_resps = {name: read(instance.resps[0]) for name, read in self.columns.items()}

    def aggregate(self, bootstrap_iters: int | None = None) -> tuple[dict[str, Any], int]:
        """Return the metrics without bootstrapped standard errors, because intervals are metrics of their own."""
        metrics: tuple[dict[str, Any], int] = super().aggregate(0)
        return metrics

    def process_instances(self) -> None:
        """Compute the values of every document, in one scorer per column. A list counts as one value."""
        self.apply_filters()
        self._scorers = [LLScorer(name=name, filter=None, metrics=[]) for name in self.columns]
        for scorer in self._scorers:
            scored = {}
            for instance in self._instances:
                values = self.process_results(instance.doc, [instance.filtered_resps[scorer.name]])
                scores = {name: [value] for name, value in values.items()}
                scored[instance.doc_id] = ScoredDoc(doc_id=instance.doc_id, reference=instance.target, scores=scores)
            scorer.set_results(scored)
        if self.spare:
            # The harness writes samples of these instances, and this process has no document of its own.
            self._instances = []


def leave_out(lm: Any, tasks: Set[str]) -> None:
    """Do nothing: in this version, the task itself leaves its values out."""


def request(
    kind: str, doc: Any, arguments: tuple[Any, ...], doc_id: int = 0, task: str | None = None, target: str | None = None
) -> Instance:
    """Return a request for a model. ``target`` is the correct answer, for the samples."""
    idx = 0 if task else doc_id
    return Instance(kind, doc, arguments, task or "", doc_id=doc_id, idx=idx, target=target)


def index_of(manager: Any) -> dict[str, Any]:
    """Return the entries of a ``TaskManager`` by name."""
    entries: dict[str, Any] = manager._task_index
    return entries


def whole_text(text: str) -> tuple[str, ...]:
    """Return the arguments of a ``loglikelihood_rolling`` request: an empty context, and the text."""
    return "", text


def rolling(values: Sequence[float]) -> list[Any]:
    """Return log-likelihoods of whole texts as pairs, the form of ``loglikelihood_rolling``."""
    return [(value, False) for value in values]

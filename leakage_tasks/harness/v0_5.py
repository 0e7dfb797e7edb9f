"""The harness' generation 0.5: a task owns scorers, makes its documents' values itself and aggregates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.task import Task
from lm_eval.config.task import TaskConfig
from lm_eval.scorers import LLScorer, ScoredDoc


class HarnessTask(Task):
    """See :class:`leakage_tasks.harness.v0_4.HarnessTask`: what a subclass has is the same."""

    OUTPUT_TYPE: Any
    spare = False

    def __init__(self, config: Mapping[str, Any]) -> None:
        # The harness wants a name, which tasks made by hand have none of.
        self._config = TaskConfig(**{"task": "", **config, "output_type": self.OUTPUT_TYPE, "num_fewshot": 0})
        self.VERSION = (self._config.metadata or {}).get("version", 0)
        self._instances: Any = None
        self._scorers: list[Any] = []
        self._fewshot_seed = None

    @property
    def _qualified_name(self) -> str:
        """The task's own name in groups as well, so that results are called alike by both generations."""
        return str(self.task_name)

    def set_num_fewshot(self, num_fewshot: int) -> None:
        """See the harness."""
        if num_fewshot:
            self.not_taken("num_fewshot", num_fewshot)

    def get_config(self, key: str) -> Any:
        """What the harness asks before it hands over ``--gen_kwargs``, which tasks that generate alone are given."""
        return "generate_until" if key == "output_type" else super().get_config(key)

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """See the harness."""
        if key != "generation_kwargs":
            super().set_config(key, value, update)
        elif value:
            self.not_taken(key, value)

    def set_repeats(self, repeats: int) -> None:
        """See the harness: a request that comes twice would be answered once."""

    def override_metric(self, metric_name: str) -> None:
        """See the harness: the figures of such a task are its output."""

    def construct_requests(self, doc: Any, ctx: Any, *, doc_id: int, **kwargs: Any) -> Any:
        """See the harness."""
        return self.request_of(doc, ctx, doc_id)

    def doc_iterator(self, *, rank: int = 0, limit: int | None = None, world_size: int = 1, samples: Any = None) -> Any:
        """See the harness; of ``--samples`` documents are counted by their place among those chosen, as samples are."""
        docs = list(self.eval_docs)
        chosen = [doc for index, doc in enumerate(docs) if index in set(samples)] if samples else docs[:limit]
        return ((index, doc) for index, doc in enumerate(chosen) if index % world_size == rank)

    def apply_filters(self) -> None:
        """Read every column off the answers."""
        for instance in self._instances:
            instance.filtered_resps = {name: read(instance.resps[0]) for name, read in self.columns.items()}

    def aggregate(self, bootstrap_iters: int | None = None) -> tuple[dict[str, Any], int]:
        """The figures; their intervals are rows of their own, so nothing is drawn for a standard error."""
        found: tuple[dict[str, Any], int] = super().aggregate(0)
        return found

    def process_instances(self) -> None:
        """Every document's values, in a scorer a column. Values that are lists stay one value each."""
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
            # Samples are made of these; values are gathered by document, so that twice the same changes nothing.
            self._instances = []


def leave_out(lm: Any, tasks: Set[str]) -> None:
    """See :func:`leakage_tasks.harness.v0_4.leave_out`: here the task itself leaves them out."""


def request(
    kind: str, doc: Any, arguments: tuple[Any, ...], doc_id: int = 0, task: str | None = None, target: str | None = None
) -> Instance:
    """See :func:`leakage_tasks.harness.v0_4.request`."""
    idx = 0 if task else doc_id
    return Instance(kind, doc, arguments, task or "", doc_id=doc_id, idx=idx, target=target)


def index_of(manager: Any) -> dict[str, Any]:
    """The entries of a ``TaskManager``, by name."""
    found: dict[str, Any] = manager._task_index
    return found


def rolling(values: Sequence[float]) -> list[Any]:
    """Log-likelihoods of whole texts as ``loglikelihood_rolling`` answers: nothing is said of greedy writing."""
    return [(value, False) for value in values]

"""Version 0.4 of the harness: a task has filters; the evaluator computes and aggregates the values of documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.task import Task
from lm_eval.config.task import TaskConfig


class HarnessTask(Task):
    """The part of a task that the harness calls: a task with documents of its own, one request each.

    Subclasses have ``request_of(doc, text, doc_id)``, ``columns`` (functions that read a value from an answer, by name)
    and ``not_taken(option, value)``, called for each option of the run that such tasks ignore.
    """

    OUTPUT_TYPE: Any
    spare = False
    """True if this process has no document of its own."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = TaskConfig(**{**config, "output_type": self.OUTPUT_TYPE, "num_fewshot": 0})
        self.VERSION = (self._config.metadata or {}).get("version", 0)
        self._instances: Any = None
        self._training_docs = self._fewshot_docs = None

    def get_config(self, key: str) -> Any:
        """Return a value that makes the harness pass options of the run to :meth:`set_config`.

        The harness ignores ``--num_fewshot`` if the task has a number, and passes ``--gen_kwargs`` only to tasks that
        generate. The configuration itself, and so the results file, keeps the true values.
        """
        if key in ("num_fewshot", "output_type"):
            return None if key == "num_fewshot" else "generate_until"
        return super().get_config(key)

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """Set an option of the run, or report that such tasks ignore it."""
        if key not in ("num_fewshot", "generation_kwargs"):
            super().set_config(key, value, update)
        elif value:
            self.not_taken(key, value)

    def doc_iterator(self, **settings: Any) -> Any:
        """Yield the documents of this process; a process without a document of its own yields a copy of another
        document."""
        return iter([(0, self._instances[0].doc)]) if self.spare else super().doc_iterator(**settings)

    def construct_requests(self, doc: Any, ctx: str, **kwargs: Any) -> Instance:
        """Return the request of a document."""
        _, doc_id, _ = kwargs["metadata"]
        return self.request_of(doc, ctx, doc_id)

    def apply_filters(self) -> None:
        """Compute the value of every column from the answers."""
        for instance in self._instances:
            instance.filtered_resps = {name: read(instance.resps[0]) for name, read in self.columns.items()}


def leave_out(lm: Any, tasks: Set[str]) -> None:
    """Remove this process's values of ``tasks`` when the harness gathers the values of all processes."""
    gather = type(lm).gather_object

    def gather_object(values: dict[str, Any], dst: int = 0) -> Any:
        for task in tasks & values.keys():
            values[task] = [] if isinstance(values[task], list) else {name: [] for name in values[task]}
        return gather(lm, values, dst)

    lm.gather_object = gather_object


def request(
    kind: str, doc: Any, arguments: tuple[Any, ...], doc_id: int = 0, task: str | None = None, target: str | None = None
) -> Instance:
    """Return a request for a model. ``target`` is the correct answer, for the samples."""
    name: Any = kind
    return Instance(name, doc=doc, arguments=arguments, idx=0 if task else doc_id, metadata=(task, doc_id, 1))


def index_of(manager: Any) -> dict[str, Any]:
    """Return the entries of a ``TaskManager`` by name."""
    entries: dict[str, Any] = manager.task_index
    return entries


def whole_text(text: str) -> tuple[str, ...]:
    """Return the arguments of a ``loglikelihood_rolling`` request."""
    return (text,)


def rolling(values: Sequence[float]) -> list[Any]:
    """Return log-likelihoods of whole texts in the form of ``loglikelihood_rolling``."""
    return list(values)

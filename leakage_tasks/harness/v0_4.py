"""The harness' generation 0.4: a task has filters, the evaluator makes documents' values and aggregates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.task import Task
from lm_eval.config.task import TaskConfig


class HarnessTask(Task):
    """The harness' side of a task with documents of its own, one request each.

    Subclasses have ``request_of(doc, text, doc_id)``, ``columns`` (what is read off a request's answers, by name) and
    ``not_taken(option, value)``, which hears of options of the run that such tasks leave alone.
    """

    OUTPUT_TYPE: Any
    spare = False
    """Whether this process has no document of its own."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = TaskConfig(**{**config, "output_type": self.OUTPUT_TYPE, "num_fewshot": 0})
        self.VERSION = (self._config.metadata or {}).get("version", 0)
        self._instances: Any = None
        self._training_docs = self._fewshot_docs = None

    def get_config(self, key: str) -> Any:
        """What the harness asks before it hands over options of the run, so that :meth:`set_config` hears of them.

        It keeps ``--num_fewshot`` to itself where there is a number already, and ``--gen_kwargs`` from all but tasks
        that generate; the configuration itself, and so the results file, says what is the case.
        """
        if key in ("num_fewshot", "output_type"):
            return None if key == "num_fewshot" else "generate_until"
        return super().get_config(key)

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """See the harness."""
        if key not in ("num_fewshot", "generation_kwargs"):
            super().set_config(key, value, update)
        elif value:
            self.not_taken(key, value)

    def doc_iterator(self, **settings: Any) -> Any:
        """See the harness; a process that is there for no document of its own sees the one it stands in for."""
        return iter([(0, self._instances[0].doc)]) if self.spare else super().doc_iterator(**settings)

    def construct_requests(self, doc: Any, ctx: str, **kwargs: Any) -> Instance:
        """See the harness."""
        _, doc_id, _ = kwargs["metadata"]
        return self.request_of(doc, ctx, doc_id)

    def apply_filters(self) -> None:
        """Read every column off the answers."""
        for instance in self._instances:
            instance.filtered_resps = {name: read(instance.resps[0]) for name, read in self.columns.items()}


def leave_out(lm: Any, tasks: Set[str]) -> None:
    """Let what this process says of tasks count for nothing when the harness gathers the processes' values."""
    gather = type(lm).gather_object

    def gather_object(found: dict[str, Any], dst: int = 0) -> Any:
        for task in tasks & found.keys():
            found[task] = [] if isinstance(found[task], list) else {name: [] for name in found[task]}
        return gather(lm, found, dst)

    lm.gather_object = gather_object


def request(
    kind: str, doc: Any, arguments: tuple[Any, ...], doc_id: int = 0, task: str | None = None, target: str | None = None
) -> Instance:
    """A request of a model; ``target`` is the right answer, for samples."""
    name: Any = kind
    return Instance(name, doc=doc, arguments=arguments, idx=0 if task else doc_id, metadata=(task, doc_id, 1))


def index_of(manager: Any) -> dict[str, Any]:
    """The entries of a ``TaskManager``, by name."""
    found: dict[str, Any] = manager.task_index
    return found


def rolling(values: Sequence[float]) -> list[Any]:
    """Log-likelihoods of whole texts as ``loglikelihood_rolling`` answers."""
    return list(values)

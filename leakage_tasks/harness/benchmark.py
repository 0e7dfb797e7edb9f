"""The items of a benchmark of the harness: its documents as question and answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any, NamedTuple

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.log import first_line
from leakage_tasks.core.option import near
from leakage_tasks.harness.index import index_of, ours_in
from leakage_tasks.harness.run import all_tasks

_MANAGER: ContextVar[Any] = ContextVar("task manager that loads tasks", default=None)
_NAME: ContextVar[str | None] = ContextVar("benchmark that is loaded", default=None)
SPLITS = ("test", "validation", "training")


class Item(NamedTuple):
    """The two parts of a benchmark's document, as few-shot examples show them, and the text between them."""

    question: str
    answer: str
    delimiter: str

    @property
    def text(self) -> str:
        """The whole text."""
        return self.question + self.delimiter + self.answer if self.question and self.answer else self._part

    @property
    def _part(self) -> str:
        return self.question or self.answer


@contextmanager
def loading(manager: Any) -> Iterator[None]:
    """Use the tasks of ``manager``, a ``TaskManager``, in :func:`load_benchmark` during the ``with`` block."""
    before = _MANAGER.set(manager)
    try:
        yield
    finally:
        _MANAGER.reset(before)


class Benchmark:
    """A task of the harness whose documents are read. ``name`` is its name, ``given`` the user's option value."""

    def __init__(self, task: Any, given: str) -> None:
        self._task = task
        self.given = given
        self.name = str(getattr(task.config, "task", None) or given)
        delimiter = getattr(task.config, "fewshot_delimiter", None)
        self.separator = "\n\n" if delimiter is None else str(delimiter)
        """Text between two few-shot examples."""

    def documents(self, split: str | None, most: int | None) -> tuple[list[Mapping[str, Any]], int]:
        """Return the first ``most`` documents in their own order, and the number of documents.

        Args:
            split: One of :data:`SPLITS`, None for the documents that the benchmark is scored on.
            most: Maximum number of documents; None returns all.

        Raises:
            OptionError: The benchmark lacks the split or its data cannot be loaded.
        """
        task, name = self._task, self.given
        if split is not None and not getattr(task, f"has_{split}_docs")():
            having = [name for name in SPLITS if getattr(task, f"has_{name}_docs")()]
            raise OptionError(
                f"of_split={split}: {name} has no such documents: use {', '.join(having) or 'no of_split'}"
            )
        with _read_errors(name):
            documents = task.eval_docs if split is None else getattr(task, f"{split}_docs")()
            number = len(documents) if hasattr(documents, "__len__") else None
            docs = list(islice(documents, most))
        return docs, len(docs) if number is None else number

    def item(self, doc: Mapping[str, Any], where: str) -> Item:
        """Return a document as a few-shot example shows it; ``where`` names it in messages.

        Raises OptionError for a document that has no text.
        """
        task, config = self._task, self._task.config
        try:
            question, answer = task.doc_to_text(doc), task.doc_to_target(doc)
            choices = task.doc_to_choice(doc) if getattr(config, "doc_to_choice", None) else None
        except Exception as error:  # a benchmark's functions can raise any exception
            raise OptionError(
                f"{where}: {self.name} cannot show it ({type(error).__name__}): pass template=…"
            ) from None
        if isinstance(question, list) and isinstance(answer, int):
            # Version 0.5 of the harness: the right one of several questions, and one answer for all of them.
            question, answer = question[answer], 0
        question = choices[question] if choices and isinstance(question, int) else question
        answer = answer[0] if isinstance(answer, list) and answer else answer
        answer = choices[answer] if choices and isinstance(answer, int) and not isinstance(answer, bool) else answer
        if not (isinstance(question, str) and isinstance(answer, str | int | float)):
            raise OptionError(f"{where}: its question or its answer is no text in {self.name}: pass template=…")
        delimiter = getattr(config, "target_delimiter", None)
        return Item(question, str(answer), " " if delimiter is None else str(delimiter))


def load_benchmark(name: str) -> Benchmark:
    """Return a task of the harness, by its name or the path of its YAML file.

    All tasks of the run are known, including the folders of ``--include_path``. Raises OptionError for an unknown name,
    a group, a task of this package, and data that cannot be loaded.
    """
    if _NAME.get() is not None:
        raise OptionError(f"of={_NAME.get()}: is itself a test of a benchmark: name the benchmark")
    manager = _MANAGER.get() or all_tasks()
    index = index_of(manager)
    entry = index.get(name)
    if entry is None and not name.endswith((".yaml", ".yml")):
        close = near(name, index)
        remedy = "'lm_eval ls tasks' lists the tasks; --include_path adds a folder"
        raise OptionError(f"of={name}: the harness has no such task{close or ':'} {remedy}")
    kind = getattr(getattr(entry, "kind", None), "name", "")
    if kind in ("GROUP", "TAG"):
        raise OptionError(f"of={name}: is a group of tasks{_member(index, name)}: name one of its tasks")
    if name in ours_in(index):
        raise OptionError(f"of={name}: measures leakage itself: name a benchmark, such as gsm8k")
    token = _NAME.set(name)
    try:
        with _read_errors(name):
            loaded = manager.load([name])
    finally:
        _NAME.reset(token)
    tasks: Sequence[Any] = list(loaded["tasks"].values())
    if loaded.get("groups") or len(tasks) != 1:
        raise OptionError(f"of={name}: is a group of {len(tasks)} tasks: name one of its tasks")
    return Benchmark(tasks[0], name)


def _member(index: Mapping[str, Any], name: str) -> str:
    """Return a member of a tag in words, if the index names one."""
    members = [task for task, each in index.items() if name in (getattr(each, "tags", None) or ())]
    return f", such as {sorted(members)[0]}" if members else ""


@contextmanager
def _read_errors(name: str) -> Iterator[None]:
    """Raise OptionError of one line for any error while a benchmark or its data are loaded."""
    try:
        yield
    except LeakageError:
        raise
    except Exception as error:  # downloads and builders of data sets fail in many ways
        raise OptionError(
            f"of={name}: cannot be loaded ({type(error).__name__}: {first_line(error)}): run the benchmark by itself "
            "once, with a network if its data are not on this machine"
        ) from None

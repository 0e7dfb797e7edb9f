"""Registration of this package's tasks and models with an installed harness.

The startup file waits for ``lm_eval`` to be imported and then calls ``install``, which puts a finder on
``sys.meta_path`` that runs a small hook after each of some harness modules has been executed. It imports this package's
modules only when the harness needs them, changes no file of the harness, and never raises: a failure is one warning.
Tasks and models are left to a harness that reads entry points itself; entry points cannot name architectures.
"""

from __future__ import annotations

import functools
import importlib
import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from leakage_tasks.core.log import log
from leakage_tasks.core.registry import package_of
from leakage_tasks.harness import groups
from leakage_tasks.harness.benchmark import loading
from leakage_tasks.harness.benchmark_corpus import warn_of_benchmark_corpora
from leakage_tasks.harness.chat_templates import keep_run_arguments
from leakage_tasks.harness.default_metadata import read_words
from leakage_tasks.harness.given import forgotten_after, note, note_typed, noted
from leakage_tasks.harness.groups import harness_reads
from leakage_tasks.harness.index import index_of, merge_index, ours_in
from leakage_tasks.harness.places import (
    folder_of,
    hiding_message,
    hiding_package,
    other_packages,
    our_models,
    task_folder,
)

NOT_AT_ALL, ENTRY_POINTS = "not at all", "the harness' own entry points"


@dataclass(frozen=True)
class Status:
    """The method by which tasks, models and architectures of this package were registered with the harness, in
    words."""

    tasks: str
    models: str
    architectures: str


class HarnessHooks:
    """An import finder that loads no module itself, but runs a hook after some modules of the harness are loaded.

    ``way`` names the method by which it was installed.
    """

    def __init__(self, way: str) -> None:
        self.way = way
        self.added: set[str] = set()
        self.warned = False
        self.hooks: dict[str, Callable[[ModuleType], None]] = {
            "lm_eval.models": self.add_models,
            "lm_eval.tasks": self.add_tasks,
            "lm_eval.models.huggingface": self.add_architectures,
            "lm_eval._cli.run": self.teach_words,
            "lm_eval.config.evaluate_config": self.note_words,
            "lm_eval.evaluator": self.note_arguments,
        }

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of a harness module that has a hook, from the other finders; else None."""
        if name not in self.hooks:
            return None
        others = (finder for finder in list(sys.meta_path) if finder is not self and hasattr(finder, "find_spec"))
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            self.guarded(self.run_after, spec.loader)
        return spec

    def run_after(self, loader: Any) -> None:
        """Make ``loader`` run our hook after the module's own code."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self.apply(module)

        loader.exec_module = exec_module

    def apply(self, module: ModuleType) -> None:
        """Run the hook that belongs to a loaded harness module."""
        self.guarded(self.hooks[module.__name__], module)

    def guarded(self, action: Callable[[Any], None], argument: Any) -> None:
        """Run ``action(argument)``; log a warning for the first failure, and raise nothing."""
        try:
            action(argument)
        except Exception as error:
            if not self.warned:
                why = " ".join(f"{type(error).__name__}: {error}".split())
                log.warning(
                    "lm-eval-leakage: could not make itself known to the harness (%s): run 'leakage doctor' for the "
                    "remedy; the harness goes on without it",
                    why,
                )
            self.warned = True

    def add_models(self, module: ModuleType) -> None:
        """Register this package's models under names that the harness does not know yet; each is imported on first
        use."""
        registry: Any = importlib.import_module("lm_eval.api.registry").model_registry
        if harness_reads(groups.MODELS):
            return
        for entry in our_models():
            if entry.name not in registry:
                # A harness that reads entry points registers this object too; an equal object is no conflict.
                registry.register(entry.name, target=entry)
                self.added.add("models")
        for entry in other_packages(groups.MODELS):
            if entry.name in registry:
                taken = "lm-eval-leakage: --model %s of %s has a name that is taken: uninstall one of the two to use it"
                log.warning(taken, entry.name, package_of(entry))
            else:
                registry.register(entry.name, target=entry)
        if place := hiding_package():
            log.warning("lm-eval-leakage: %s: %s", *hiding_message(place))

    def add_tasks(self, module: ModuleType) -> None:
        """Add this package's tasks to every ``TaskManager`` that has the harness' own tasks."""
        if harness_reads(groups.TASKS):
            return
        manager_class: Any = module.TaskManager
        original = manager_class.__init__
        if hasattr(original, "knows_leakage_tasks"):
            return

        @functools.wraps(original)
        def __init__(manager: Any, *args: Any, **kwargs: Any) -> None:
            original(manager, *args, **kwargs)
            if _includes_defaults(original, manager, *args, **kwargs):
                self.guarded(merge, manager)

        def merge(manager: Any) -> None:
            if not ours_in(index_of(manager)):
                merge_folder(manager, task_folder())
                self.added.add("tasks")
            for entry in other_packages(groups.TASKS):
                self.guarded(lambda entry: merge_folder(manager, folder_of(entry)), entry)

        def merge_folder(manager: Any, folder: Path) -> None:
            extra = object.__new__(manager_class)
            original(extra, include_path=str(folder), include_defaults=False)
            merge_index(manager, extra, Path(str(module.__file__)).parent)

        __init__.knows_leakage_tasks = True  # type: ignore[attr-defined]
        manager_class.__init__ = __init__
        self.introduce_tasks(manager_class)
        self.quieten_errors()

    def quieten_errors(self) -> None:
        """Print one line instead of a traceback if ``lm_eval`` ends with an error that the user can correct."""
        usual = sys.excepthook

        @functools.wraps(usual)
        def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            if _is_ours(error) and runs_lm_eval() and os.environ.get("LM_EVAL_LEAKAGE_DEBUG") != "1":
                print(f"leakage: {error}", file=sys.stderr)
            else:
                usual(kind, error, trace)

        sys.excepthook = excepthook

    def introduce_tasks(self, manager_class: Any) -> None:
        """Give each of this package's tasks the names of all other tasks of the run, once all are loaded."""
        original = getattr(manager_class, "load", None)
        if original is None:
            return

        @functools.wraps(original)
        def load(manager: Any, *args: Any, **kwargs: Any) -> Any:
            with loading(manager):
                loaded = original(manager, *args, **kwargs)
            self.guarded(introduce, loaded)
            self.guarded(lambda found: warn_of_benchmark_corpora(found["tasks"].values()), loaded)
            return loaded

        def introduce(loaded: Any) -> None:
            tasks = loaded["tasks"].values()
            ours = [task for task in tasks if hasattr(task, "alone")]
            for task in ours:
                task.alone = len(ours) == len(tasks)
                task.other_tasks = frozenset(loaded["tasks"]) - {task.task_name}
            if ours and runs_lm_eval():
                escape_on_stdout()

        manager_class.load = load

    def teach_words(self, module: ModuleType) -> None:
        """Make ``--metadata`` accept ``name=value`` words if the parser accepts only JSON, and record the words as
        typed."""
        original = module.Run._add_args

        @functools.wraps(original)
        def _add_args(command: Any) -> None:
            original(command)
            for action in command._parser._actions:
                if action.dest == "metadata":
                    action.type = metadata_words if action.type is json.loads else note_typed

        module.Run._add_args = _add_args

    def note_words(self, module: ModuleType) -> None:
        """Record the model arguments of a command line before the harness merges them with the metadata of tasks."""
        original = module.EvaluatorConfig._configure

        @functools.wraps(original)
        def _configure(config: Any) -> Any:
            self.guarded(lambda config: note(config.model_args, config.metadata), config)
            return original(config)

        module.EvaluatorConfig._configure = _configure

    def note_arguments(self, module: ModuleType) -> None:
        """Record the model arguments of a call from Python, unless a ``TaskManager`` has merged them."""
        original: Any = vars(module)["simple_evaluate"]

        @functools.wraps(original)
        def simple_evaluate(*args: Any, **kwargs: Any) -> Any:
            arguments = signature(original).bind_partial(*args, **kwargs).arguments
            if (manager := arguments.get("task_manager")) is not None:
                with forgotten_after(arguments.get("metadata"), manager):
                    return original(*args, **kwargs)
            with noted(arguments.get("model_args"), arguments.get("metadata")):
                return original(*args, **kwargs)

        vars(module)["simple_evaluate"] = simple_evaluate
        keep_run_arguments(module)

    def add_architectures(self, module: ModuleType) -> None:
        """Register this package's architectures with transformers' Auto classes before the harness builds a model."""
        importlib.import_module("leakage_tasks.models").register()
        self.added.add("architectures")


def metadata_words(text: str) -> dict[str, Any]:
    """Return the values of ``--metadata``, and record them as typed. Raises ValueError for another form."""
    return read_words(note_typed(text))


def install(way: str = "by hand") -> None:
    """Register this package's tasks and models in this process, before or after the harness is imported.

    ``way`` is the name that ``status`` reports. A second call changes nothing. Never raises.
    """
    if _hooks() is not None:
        return
    hooks = HarnessHooks(way)
    sys.meta_path.insert(0, hooks)
    for name in hooks.hooks:
        if module := sys.modules.get(name):
            hooks.apply(module)


def status(manager: Any) -> Status:
    """Return the methods by which tasks and models were registered.

    ``manager`` is a ``TaskManager`` with the default tasks.
    """
    from lm_eval import models as _  # noqa: F401
    from lm_eval.api.registry import model_registry
    from lm_eval.models import huggingface as _hf  # noqa: F401

    hooks = _hooks()
    added = hooks.added if hooks else set()
    way = hooks.way if hooks else NOT_AT_ALL
    models = harness_reads(groups.MODELS) or all(entry.name in model_registry for entry in our_models())
    known = {"tasks": bool(ours_in(index_of(manager))), "models": models}
    ways = {kind: (way if kind in added else ENTRY_POINTS) if seen else NOT_AT_ALL for kind, seen in known.items()}
    return Status(**ways, architectures=way if "architectures" in added else NOT_AT_ALL)


def _hooks() -> HarnessHooks | None:
    return next((finder for finder in sys.meta_path if isinstance(finder, HarnessHooks)), None)


def _is_ours(error: BaseException) -> bool:
    errors = sys.modules.get("leakage_tasks.core.errors")
    return errors is not None and isinstance(error, errors.LeakageError)


def runs_lm_eval() -> bool:
    """Return True if the process is the ``lm_eval`` command and not a program that uses the harness."""
    started = Path(sys.argv[0]) if sys.argv else Path()
    return started.stem in ("lm_eval", "lm-eval") or (
        started.name == "__main__.py" and started.parent.name == "lm_eval"
    )


def escape_on_stdout() -> None:
    """Make stdout escape characters that its encoding lacks, because the harness prints a table with such
    characters."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _includes_defaults(original: Callable[..., None], *args: Any, **kwargs: Any) -> bool:
    return bool(signature(original).bind(*args, **kwargs).arguments.get("include_defaults", True))

"""Calls of the harness from Python; results and samples are saved as its command saves them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from leakage_tasks.harness import groups
from leakage_tasks.harness.places import folder_of, other_packages, task_folder


def model_class(name: str) -> Any:
    """Return the class for ``--model name``. Raises ValueError or KeyError for an unknown name."""
    from lm_eval.api.registry import get_model

    return get_model(name)


def all_tasks() -> Any:
    """Return a ``TaskManager`` with the harness' own tasks, and this package's tasks if they are registered."""
    from lm_eval.tasks import TaskManager

    return TaskManager()


def our_tasks(metadata: Mapping[str, Any]) -> Any:
    """Return a ``TaskManager`` with only this package's tasks and the tasks of packages that extend it.

    The harness' own tasks are left out, because reading them takes seconds.
    """
    from lm_eval.tasks import TaskManager

    folders = [str(task_folder()), *map(str, _their_folders())]
    return TaskManager(None, folders, include_defaults=False, metadata=dict(metadata))


def _their_folders() -> Iterator[Path]:
    for entry in other_packages(groups.TASKS):
        with suppress(ImportError):
            yield folder_of(entry)


def evaluate(model: Any, tasks: Sequence[str], metadata: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """Evaluate ``tasks`` of this package with ``metadata``; ``options`` are further arguments of
    ``simple_evaluate``."""
    from lm_eval import simple_evaluate

    manager = our_tasks(metadata)
    results: dict[str, Any] = simple_evaluate(
        model, tasks=list(tasks), task_manager=manager, bootstrap_iters=0, **options
    )
    return results


def evaluate_into(
    folder: Path, name: str, model: Any, tasks: Sequence[str], metadata: Mapping[str, Any], **options: Any
) -> tuple[dict[str, Any], Path]:
    """Evaluate ``tasks`` and save results and samples in ``folder`` as ``lm_eval`` does.

    Returns the results without samples, and the path of the results file. Reports call the model ``name``, as the
    harness gives a model in memory a random name.
    """
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.utils import sanitize_model_name

    tracker = EvaluationTracker(output_path=str(folder))
    results = evaluate(model, tasks, metadata, evaluation_tracker=tracker, **options)
    config = tracker.general_config_tracker
    config.model_name, config.model_name_sanitized = name, sanitize_model_name(name)
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task in results["configs"]:
        tracker.save_results_samples(task_name=task, samples=samples[task])
    return results, folder / config.model_name_sanitized / f"results_{tracker.date_id}.json"

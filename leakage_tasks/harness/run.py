"""Running the harness from Python: one of its models by name, our tasks, results and samples as its command saves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from leakage_tasks.harness import groups
from leakage_tasks.harness.places import folder_of, outside, task_folder


def model_class(name: str) -> Any:
    """What ``--model name`` stands for. Raises ValueError or KeyError where it stands for nothing."""
    from lm_eval.api.registry import get_model

    return get_model(name)


def all_tasks() -> Any:
    """A ``TaskManager`` that knows the harness' own tasks, and ours if it found them."""
    from lm_eval.tasks import TaskManager

    return TaskManager()


def our_tasks(metadata: Mapping[str, Any]) -> Any:
    """A ``TaskManager`` of our tasks and those of packages that extend us; reading the harness' own takes seconds."""
    from lm_eval.tasks import TaskManager

    folders = [str(task_folder()), *map(str, _their_folders())]
    return TaskManager(None, folders, include_defaults=False, metadata=dict(metadata))


def _their_folders() -> Iterator[Path]:
    for entry in outside(groups.TASKS):
        with suppress(ImportError):
            yield folder_of(entry)


def evaluate(model: Any, tasks: Sequence[str], metadata: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """What the harness returns for our ``tasks`` with ``metadata``; ``options`` are those of ``simple_evaluate``."""
    from lm_eval import simple_evaluate

    manager = our_tasks(metadata)
    results: dict[str, Any] = simple_evaluate(
        model, tasks=list(tasks), task_manager=manager, bootstrap_iters=0, **options
    )
    return results


def evaluate_into(
    folder: Path, name: str, model: Any, tasks: Sequence[str], metadata: Mapping[str, Any], **options: Any
) -> tuple[dict[str, Any], Path]:
    """The same without the samples, and the results file: both are saved in ``folder`` as ``lm_eval`` does.

    Reports call the model by ``name``; the harness draws one at random for a model in memory.
    """
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.utils import sanitize_model_name

    tracker = EvaluationTracker(output_path=str(folder))
    results = evaluate(model, tasks, metadata, evaluation_tracker=tracker, **options)
    told = tracker.general_config_tracker
    told.model_name, told.model_name_sanitized = name, sanitize_model_name(name)
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task in results["configs"]:
        tracker.save_results_samples(task_name=task, samples=samples[task])
    return results, folder / told.model_name_sanitized / f"results_{tracker.date_id}.json"

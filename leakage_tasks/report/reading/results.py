"""The runs that results files stand for, each with a name of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.log import warn_once
from leakage_tasks.report.reading.results_file import read_run
from leakage_tasks.report.reading.run import STAMP, Run, TaskResult
from leakage_tasks.report.reading.run_names import named

__all__ = ["Run", "TaskResult", "files_read", "read_runs", "results_files"]
OURS = ("canary_exposure", "canary_extraction", "suffix_extraction")
"""Tasks of this package, which declare themselves."""


def read_runs(paths: Iterable[str | Path]) -> list[Run]:
    """The runs of results files, and of all results files under folders; a model's files of different tasks are one.

    Each run has a name that no other has. Raises ResultsError naming the file, and what of it, cannot be used.
    """
    files = list(dict.fromkeys(file.resolve() for path in paths for file in results_files(path)))
    read = [run for run in map(_read, files) if run is not None]
    if files and not read:
        raise ResultsError(
            f"{files[0]}: holds a self-test alone, which says nothing of the model: run lm_eval with --metadata "
            "canaries=…"
        )
    runs = sorted(read, key=lambda run: (run.source, run.model, run.date, str(run.files[0])))
    return named(_joined(runs))


def results_files(path: str | Path) -> list[Path]:
    """The results files that a path stands for: itself, or those in a folder and below. Raises ResultsError."""
    place = Path(path)
    if place.is_dir():
        # A pipe of such a name would be waited for for ever.
        found = sorted(file for file in place.rglob("*.json") if STAMP.search(file.name) and file.is_file())
        if not found:
            raise ResultsError(
                f"{path}: no results file in it or below: run lm_eval with --output_path {path}, or name a file"
            )
        return found
    if not place.is_file():
        raise ResultsError(f"{path}: no such file or folder: give what lm_eval wrote with --output_path")
    return [place]


def files_read(paths: Iterable[str | Path]) -> list[Path]:
    """All files of results and samples that reports of ``paths`` may read. Raises ResultsError."""
    results = [file for path in paths for file in results_files(path)]
    return sorted({*results, *(file for each in results for file in each.parent.glob("samples_*.jsonl"))})


def _read(file: Path) -> Run | None:
    """A file's run without self-tests, and without tasks of ours that say nothing about their rows.

    Those would pass for usefulness, a self-test for a clean audit; None where there is nothing else.
    """
    run = read_run(file)
    old = [task for task in OURS if task in run.tasks and run.tasks[task].declared is None]
    for task in old:
        warn_once(f"{file}: {task}: written by a version that declared nothing about its rows: run the task again")
    tests = [task for task, each in run.tasks.items() if each.declared is not None and each.declared.built_in]
    for task in tests:
        warn_once(f"{file}: {task}: a self-test on built-in canaries, which says nothing of the model: left out")
    kept = {task: each for task, each in run.tasks.items() if task not in old + tests}
    return None if tests and not kept else dataclasses.replace(run, tasks=kept)


def _joined(runs: Sequence[Run]) -> list[Run]:
    """Runs of the same model with the same arguments as one, as long as no task has figures twice; the latest first."""
    joined: list[Run] = []
    for run in runs:
        fitting = (at for at in reversed(range(len(joined))) if _same_model(joined[at], run))
        place = next((at for at in fitting if not _answered(joined[at]) & _answered(run)), None)
        if place is None:
            joined.append(run)
        else:
            joined[place] = _union(joined[place], run)
    return joined


def _answered(run: Run) -> set[str]:
    return {task for task, result in run.tasks.items() if result.answered}


def _same_model(one: Run, other: Run) -> bool:
    return (one.model, one.source, one.config.get("model_sha")) == (
        other.model,
        other.source,
        other.config.get("model_sha"),
    ) and one.arguments == other.arguments


def _union(one: Run, newer: Run) -> Run:
    """Both as one: of a task that both have, what has figures, else what is newer."""
    kept = _answered(one) - _answered(newer)
    return dataclasses.replace(
        newer,
        tasks={**one.tasks, **{task: each for task, each in newer.tasks.items() if task not in kept}},
        configs={**one.configs, **{task: each for task, each in newer.configs.items() if task not in kept}},
        files=(*one.files, *newer.files),
    )

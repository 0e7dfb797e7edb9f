"""The runs that results files stand for, each with a name of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

from leakage_tasks.errors import ResultsError
from leakage_tasks.report.results_file import read_run
from leakage_tasks.report.run import STAMP, Run, TaskResult

__all__ = ["Run", "TaskResult", "read_runs", "results_files"]


def read_runs(paths: Iterable[str | Path]) -> list[Run]:
    """The runs of results files, and of all results files under folders; a model's files of different tasks are one.

    Each run has a name that no other has. Raises ResultsError naming the file, and what of it, cannot be used.
    """
    files = list(dict.fromkeys(file.resolve() for path in paths for file in results_files(path)))
    runs = sorted((read_run(file) for file in files), key=lambda run: (run.source, run.model, run.date))
    return _named(_joined(runs))


def results_files(path: str | Path) -> list[Path]:
    """The results files that a path stands for: itself, or those in a folder and below. Raises ResultsError."""
    place = Path(path)
    if place.is_dir():
        found = sorted(file for file in place.rglob("*.json") if STAMP.search(file.name))
        if not found:
            raise ResultsError(
                f"{path}: no results file in it or below: run lm_eval with --output_path {path}, or name a file"
            )
        return found
    if not place.is_file():
        raise ResultsError(f"{path}: no such file or folder: give what lm_eval wrote with --output_path")
    return [place]


def _joined(runs: Sequence[Run]) -> list[Run]:
    """Runs of the same model with the same arguments as one, as long as no task comes twice."""
    joined: list[Run] = []
    for run in runs:
        fit = (
            place for place, each in enumerate(joined) if _same_model(each, run) and not each.tasks.keys() & run.tasks
        )
        place = next(fit, None)
        if place is None:
            joined.append(run)
        else:
            joined[place] = _union(joined[place], run)
    return joined


def _disjoint(one: Run, other: Run) -> bool:
    return not one.tasks.keys() & other.tasks.keys()


def _same_model(one: Run, other: Run) -> bool:
    return (one.model, one.source, one.config.get("model_sha")) == (
        other.model,
        other.source,
        other.config.get("model_sha"),
    ) and one.arguments == other.arguments


def _union(one: Run, other: Run) -> Run:
    newer = max(one, other, key=lambda run: run.date)
    return dataclasses.replace(
        newer,
        tasks={**one.tasks, **other.tasks},
        configs={**one.configs, **other.configs},
        files=(*one.files, *other.files),
    )


def _named(runs: Sequence[Run]) -> list[Run]:
    """Each run with the shortest name that no other has: model, then with its kind, its whole path, and a number."""
    names = [_names(run) for run in runs]
    taken = [_first_unique(place, names) for place in range(len(runs))]
    named = []
    for place, run in enumerate(runs):
        name, same = taken[place], [other for other in range(len(runs)) if taken[other] == taken[place]]
        named.append(dataclasses.replace(run, name=name if len(same) == 1 else f"{name} #{same.index(place) + 1}"))
    return named


def _names(run: Run) -> list[str]:
    added = [str(run.arguments[name]) for name in ("peft", "prompt", "delta") if run.arguments.get(name)]
    short = " + ".join(each.rstrip("/\\").replace("\\", "/").split("/")[-1] for each in [run.source, *added])
    return [short, f"{short} ({run.model})", run.source, f"{run.source} ({run.model})"]


def _first_unique(place: int, names: Sequence[Sequence[str]]) -> str:
    for length, name in enumerate(names[place]):
        if sum(each[length] == name for each in names) == 1:
            return name
    return names[place][1]

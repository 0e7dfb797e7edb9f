"""The runs that results files stand for, each with a name that no other has, one line which can be shown."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from leakage_tasks.core.command_words import masked
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.log import warn_once
from leakage_tasks.report.load.results_file import read_run
from leakage_tasks.report.load.run import STAMP, Run, TaskResult
from leakage_tasks.report.load.validate import printable

__all__ = ["Run", "TaskResult", "files_read", "read_runs", "results_files"]
OURS = ("canary_exposure", "canary_extraction", "suffix_extraction")
"""Tasks of this package, which declare themselves."""


def read_runs(paths: Iterable[str | Path]) -> list[Run]:
    """The runs of results files, and of all results files under folders; a model's files of different tasks are one.

    Each run has a name that no other has. Raises ResultsError naming the file, and what of it, cannot be used.

    Examples:
        >>> from leakage_tasks import read_runs
        >>> (run,) = read_runs(["results"])
        >>> sorted(run.tasks)
        ['canary_exposure', 'canary_extraction']
    """
    files = list(dict.fromkeys(file.resolve() for path in paths for file in results_files(path)))
    read = [run for run in map(_read, files) if run is not None]
    if files and not read:
        raise ResultsError(
            f"{files[0]}: holds a self-test alone, which says nothing of the model: run lm_eval with --metadata "
            "canaries=…"
        )
    runs = sorted(read, key=lambda run: (run.source, run.model, run.date, str(run.files[0])))
    return name_runs(_join_runs(runs))


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
    return sorted({*results, *(file for result in results for file in result.parent.glob("samples_*.jsonl"))})


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


def _join_runs(runs: Sequence[Run]) -> list[Run]:
    """Runs of the same model with the same arguments as one, as long as no task has figures twice; the latest first."""
    joined: list[Run] = []
    for run in runs:
        fitting = (at for at in reversed(range(len(joined))) if _same_model(joined[at], run))
        place = next((at for at in fitting if not _answered_tasks(joined[at]) & _answered_tasks(run)), None)
        if place is None:
            joined.append(run)
        else:
            joined[place] = _union(joined[place], run)
    return joined


def _answered_tasks(run: Run) -> set[str]:
    return {task for task, result in run.tasks.items() if result.answered}


def _same_model(one: Run, other: Run) -> bool:
    ours, theirs = ((run.model, run.source, run.config.get("model_sha"), run.arguments) for run in (one, other))
    return ours == theirs


def _union(one: Run, newer: Run) -> Run:
    """Both as one: of a task that both have, what has figures, else what is newer."""
    kept = _answered_tasks(one) - _answered_tasks(newer)
    return dataclasses.replace(
        newer,
        tasks={**one.tasks, **{task: each for task, each in newer.tasks.items() if task not in kept}},
        configs={**one.configs, **{task: each for task, each in newer.configs.items() if task not in kept}},
        files=(*one.files, *newer.files),
    )


def name_runs(runs: Sequence[Run]) -> list[Run]:
    """Each run with the shortest name that no other has.

    That is its model, with the kind of model or the whole path if need be; of several runs of one model, with the
    model's arguments that differ, else with the date, the time, and at last a number.
    """
    of_model: dict[tuple[str, ...], list[int]] = {}
    for index, run in enumerate(runs):
        of_model.setdefault(_models(run), []).append(index)
    names = [""] * len(runs)
    for name, places in zip(_first_unshared(list(of_model)), of_model.values(), strict=True):
        details = _first_unshared(_details([runs[place] for place in places]))
        for place, said in zip(places, details, strict=True):
            names[place] = printable(f"{name} ({said})" if said else name)
    return [dataclasses.replace(run, name=name) for run, name in zip(runs, _number_repeated(names), strict=True)]


def _first_unshared(rows: Sequence[Sequence[str]]) -> list[str]:
    """Of each row of names, the shortest first, the first that no other row has in its place, else the last."""
    counts = [Counter(column) for column in zip(*rows, strict=True)]
    return [next((each for n, each in enumerate(row) if counts[n][each] == 1), row[-1]) for row in rows]


def _models(run: Run) -> tuple[str, ...]:
    """Names of the model, from the shortest to one that no other model has."""
    short = " + ".join(part.rstrip("/\\").replace("\\", "/").split("/")[-1] for part in run.parts)
    full = run.whole
    return short, f"{short} ({run.model})", full, f"{full} ({run.model})"


def _details(alike: Sequence[Run]) -> list[list[str]]:
    """What tells runs of one model apart: the arguments that differ, then with the day, then with the time."""
    given = {name for each in alike for name in each.arguments}
    differing = sorted(name for name in given if len({_text(each, name) for each in alike}) > 1)
    details = []
    for run in alike:
        told = [f"{name}={_text(run, name)}" for name in differing if name in run.arguments]
        times = ["", ""] if run.time is None else [f"{run.time:%Y-%m-%d}", f"{run.time:%Y-%m-%d %H:%M:%S}"]
        details.append([", ".join(told), *(", ".join(filter(None, [*told, time])) for time in times)])
    return details


def _text(run: Run, name: str) -> str:
    """An argument's value without passwords and keys; nothing where it is not given."""
    value = masked(name, run.arguments.get(name, ""))
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _number_repeated(names: Sequence[str]) -> Iterator[str]:
    """The names, with a number where one is there more than once."""
    often, met = Counter(names), Counter[str]()
    for name in names:
        met[name] += 1
        yield name if often[name] == 1 else f"{name} #{met[name]}"

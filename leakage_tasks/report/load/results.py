"""Loading of runs from results files; each run gets a unique, printable, one-line name."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from leakage_tasks.core.command_words import masked
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.task_names import EXPOSURE, EXTRACTION, SUFFIXES
from leakage_tasks.report.load.results_file import read_run
from leakage_tasks.report.load.run import STAMP, Run, TaskResult
from leakage_tasks.report.load.validate import as_words, printable

__all__ = ["Run", "TaskResult", "files_read", "read_runs", "results_files"]
OURS = (EXPOSURE, EXTRACTION, SUFFIXES)
"""Tasks of this package; their results contain a declaration."""


def read_runs(paths: Iterable[str | Path]) -> list[Run]:
    """Read runs from results files and from all results files under folders.

    Files of one model with different tasks become one run. Each run gets a unique name. Raises ResultsError naming the
    file and the field that cannot be used.

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
            f"{files[0]}: holds only a self-test, which does not measure the model: run lm_eval with --metadata "
            "canaries=…"
        )
    runs = sorted(read, key=lambda run: (run.source, run.model, run.date, str(run.files[0])))
    return name_runs(_join_runs(runs))


def read_one_run(path: str | Path) -> Run:
    """Return the only run under ``path``. Raises ResultsError for several runs."""
    runs = read_runs([path])
    if len(runs) > 1:
        names = ", ".join(run.name for run in runs[:10]) + (", …" if len(runs) > 10 else "")
        raise ResultsError(f"{path}: holds {len(runs)} runs ({names}): give the results file of one run")
    return runs[0]


def results_files(path: str | Path) -> list[Path]:
    """Return the path itself, or all results files in and below a folder. Raises ResultsError."""
    location = Path(path)
    if location.is_dir():
        # Opening a named pipe with such a name would block forever.
        files = sorted(file for file in location.rglob("*.json") if STAMP.search(file.name) and file.is_file())
        if not files:
            raise ResultsError(
                f"{path}: no results file in it or below: run lm_eval with --output_path {path}, or name a file"
            )
        return files
    if not location.is_file():
        raise ResultsError(f"{path}: no such file or folder: give a file that lm_eval wrote with --output_path")
    return [location]


def files_read(paths: Iterable[str | Path]) -> list[Path]:
    """List all files of results and samples that reports on ``paths`` may read. Raises ResultsError."""
    results = [file for path in paths for file in results_files(path)]
    return sorted({*results, *(file for result in results for file in result.parent.glob("samples_*.jsonl"))})


def _read(file: Path) -> Run | None:
    """Read a file's run, without self-tests and without tasks of this package that lack a declaration.

    Without a declaration, a leakage task would count as usefulness; a self-test would look like an audit without
    leakage. Return None if the file holds only self-tests.
    """
    run = read_run(file)
    old = [task for task in OURS if task in run.tasks and run.tasks[task].declared is None]
    for task in old:
        warn_once(f"{file}: {task}: an earlier version wrote it without a declaration: run the task again")
    tests = [task for task, result in run.tasks.items() if result.declared is not None and result.declared.built_in]
    for task in tests:
        warn_once(f"{file}: {task}: a self-test on built-in canaries does not measure the model: left out")
    tasks = {task: result for task, result in run.tasks.items() if task not in old + tests}
    return None if tests and not tasks else dataclasses.replace(run, tasks=tasks)


def _join_runs(runs: Sequence[Run]) -> list[Run]:
    """Join runs of one model with equal arguments unless a task would have values twice; try the newest run first."""
    joined: list[Run] = []
    for run in runs:
        fitting = (at for at in reversed(range(len(joined))) if _same_model(joined[at], run))
        index = next((at for at in fitting if not _answered_tasks(joined[at]) & _answered_tasks(run)), None)
        if index is None:
            joined.append(run)
        else:
            joined[index] = _union(joined[index], run)
    return joined


def _answered_tasks(run: Run) -> set[str]:
    return {task for task, result in run.tasks.items() if result.answered}


def _same_model(one: Run, other: Run) -> bool:
    ours, theirs = ((run.model, run.source, run.config.get("model_sha"), run.arguments) for run in (one, other))
    return ours == theirs


def _union(one: Run, newer: Run) -> Run:
    """Join two runs of one model; a task of both comes from the newer run, unless only the older one has values."""
    older_only = _answered_tasks(one) - _answered_tasks(newer)
    return dataclasses.replace(
        newer,
        tasks={**one.tasks, **{task: result for task, result in newer.tasks.items() if task not in older_only}},
        configs={**one.configs, **{task: config for task, config in newer.configs.items() if task not in older_only}},
        files=(*one.files, *newer.files),
        versions={name: _both(one.versions, newer.versions, name) for name in {**one.versions, **newer.versions}},
    )


def _both(older: Mapping[str, str], newer: Mapping[str, str], name: str) -> str:
    """Return the versions of a package in the files of a run, each once, the newest file's last."""
    listed = [version for known in (older, newer) if name in known for version in known[name].split(", ")]
    return ", ".join(dict.fromkeys(listed))


def name_runs(runs: Sequence[Run]) -> list[Run]:
    """Give each run the shortest unique name.

    The name is that of the model, with the kind of model or the full path if needed. Several runs of one model also get
    the arguments that differ, else the date, then the time, and finally a number.
    """
    of_model: dict[tuple[str, ...], list[int]] = {}
    for index, run in enumerate(runs):
        of_model.setdefault(_models(run), []).append(index)
    names = [""] * len(runs)
    for name, indices in zip(_first_unshared(list(of_model)), of_model.values(), strict=True):
        details = _first_unshared(_details([runs[index] for index in indices]))
        for index, detail in zip(indices, details, strict=True):
            names[index] = printable(f"{name} ({detail})" if detail else name)
    return [dataclasses.replace(run, name=name) for run, name in zip(runs, _number_repeated(names), strict=True)]


def _first_unshared(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return for each row the first name, from short to long, that is unique in its column, else the last name."""
    counts = [Counter(column) for column in zip(*rows, strict=True)]
    return [next((name for n, name in enumerate(row) if counts[n][name] == 1), row[-1]) for row in rows]


def _models(run: Run) -> tuple[str, ...]:
    """Return names of the model, from the shortest to a unique one."""
    short = " + ".join(part.rstrip("/\\").replace("\\", "/").split("/")[-1] for part in run.parts)
    full = run.whole
    return short, f"{short} ({run.model})", full, f"{full} ({run.model})"


def _details(runs: Sequence[Run]) -> list[list[str]]:
    """Return texts that distinguish runs of one model: the differing arguments, then also the day, then the time."""
    names = {name for run in runs for name in run.arguments}
    differing = sorted(name for name in names if len({_text(run, name) for run in runs}) > 1)
    details = []
    for run in runs:
        arguments = [f"{name}={_text(run, name)}" for name in differing if name in run.arguments]
        times = ["", ""] if run.time is None else [f"{run.time:%Y-%m-%d}", f"{run.time:%Y-%m-%d %H:%M:%S}"]
        details.append([", ".join(arguments), *(", ".join(filter(None, [*arguments, time])) for time in times)])
    return details


def _text(run: Run, name: str) -> str:
    """Return an argument's value without passwords and keys, or an empty text if it is not set."""
    return as_words(masked(name, run.arguments.get(name, "")))


def _number_repeated(names: Sequence[str]) -> Iterator[str]:
    """Yield the names; repeated names get a number."""
    often, met = Counter(names), Counter[str]()
    for name in names:
        met[name] += 1
        yield name if often[name] == 1 else f"{name} #{met[name]}"

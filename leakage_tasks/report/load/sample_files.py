"""Files of samples: how the harness names them, and which of a folder can be scored."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.metrics.scoring import SCORINGS, Scoring, scoring_name
from leakage_tasks.report.load.run import STAMP
from leakage_tasks.report.load.sample_lines import read_objects, task_settings_of

NAME = re.compile(r"samples_(?P<task>.+)_(?P<stamp>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.jsonl")
"""How the harness names a file of samples: by its task, and by the time that the results file has as well."""
_LOGGING = "run lm_eval again with --log_samples and --output_path"


@dataclass(frozen=True)
class SampleFiles:
    """Files of samples to score, and what is to be said of those that are not."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]


def find_samples(paths: Iterable[str | Path]) -> SampleFiles:
    """The files of samples of all paths, each once. Raises ResultsError for a path that has none."""
    found = [_files_of(Path(path)) for path in paths]
    files = {file.resolve(): file for each in found for file in each.files}
    return SampleFiles(tuple(files.values()), tuple(dict.fromkeys(note for each in found for note in each.notes)))


def _files_of(path: Path) -> SampleFiles:
    if path.is_dir():
        return _under(path)
    if not path.is_file():
        raise ResultsError(f"{path}: no such file or folder: give samples, a results file, or their folder")
    stamp = STAMP.search(path.name)
    if stamp is None:
        return SampleFiles((path,), ())
    beside = sorted(path.parent.glob(f"samples_*_{stamp[1]}.jsonl"))
    if not beside:
        raise ResultsError(f"{path}: no samples of its run beside it, samples_…_{stamp[1]}.jsonl: {_LOGGING}")
    return _scorable(path, beside)


def _under(folder: Path) -> SampleFiles:
    """The newest samples of each task in each folder below."""
    groups: dict[tuple[Path, str], list[tuple[str, Path]]] = defaultdict(list)
    for file in sorted(folder.rglob("samples_*.jsonl")):
        if name := NAME.fullmatch(file.name):
            groups[file.parent, name["task"]].append((name["stamp"], file))
    if not groups:
        raise ResultsError(f"{folder}: no samples in it or below, samples_TASK_TIME.jsonl: {_LOGGING}")
    newest = {max(group)[1]: len(group) for group in groups.values()}
    kept = _scorable(folder, newest)
    notes = (
        f"{file.name} is the newest of {newest[file]} of its task in {file.parent}: name another for that"
        for file in kept.files
        if newest[file] > 1
    )
    return SampleFiles(kept.files, (*kept.notes, *notes))


def _scorable(place: Path, files: Iterable[Path]) -> SampleFiles:
    """Return those of the files whose task can be scored. Raises ResultsError if there is none."""
    named = [file for file in files if NAME.fullmatch(file.name)]
    missing = {file: reason for file in named if (reason := _unscorable(file))}
    kept = tuple(file for file in named if file not in missing)
    reasons = "; ".join(sorted(set(missing.values())))
    if not kept:
        raise ResultsError(f"{place}: no samples that can be scored: {reasons}")
    return SampleFiles(kept, (f"not scored: {reasons}",) if reasons else ())


def _unscorable(file: Path) -> str:
    """Return the reason why a file's task cannot be scored, nothing if it can."""
    try:
        scoring_of(file)
    except UnknownScoring as error:
        return error.problem
    except ResultsError as error:
        return str(error)
    return ""


class UnknownScoring(ResultsError):
    """Samples of a task without a scoring; ``problem`` names the task and the reason."""


def scoring_of(file: Path) -> Scoring:
    """Return the scoring of the samples in a file, going by its task's name or by the request in its first line.

    Raises:
        UnknownScoring: If its task has none.
        ResultsError: If the file is not called as the harness calls samples, or cannot be read.
    """
    found = NAME.fullmatch(file.name)
    if found is None:
        raise ResultsError(f"{file}: not named as lm_eval names samples: call it samples_TASK_TIME.jsonl")
    task = found["task"]
    task_settings = {} if task in SCORINGS else _first_task_settings(file)
    name = scoring_name(task, task_settings)
    if name is not None and name in SCORINGS:
        return SCORINGS[name]
    if name is None:
        problem = f"{task} is no task of this package, and its requests name no scoring"
        remedy = f"give samples of {', '.join(SCORINGS.names())}, or of a task that inherits from them"
    else:
        problem = f"{task} is scored by {name!r}, which no installed package registers"
        remedy = f"install the package of the task, which registers it in the entry-point group {SCORINGS.group}"
    raise UnknownScoring(f"{file}: {problem}: {remedy}", problem=problem)


def _first_task_settings(file: Path) -> Mapping[str, Any]:
    """Return the attack's settings in the first line of samples, nothing for lines of other tasks."""
    first = next(read_objects(file), None)
    return {} if first is None else task_settings_of(first[1]) or {}

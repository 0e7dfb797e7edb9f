"""Files of samples: their names, and the choice of files that can be scored."""

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
"""The harness' name for a file of samples: task, and the time that the results file has too."""
_LOGGING = "run lm_eval again with --log_samples and --output_path"


@dataclass(frozen=True)
class SampleFiles:
    """Files of samples to score, with notes on files that are left out."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]


def find_samples(paths: Iterable[str | Path]) -> SampleFiles:
    """Find the files of samples of all paths, each once. Raises ResultsError for a path without samples."""
    groups = [_files_of(Path(path)) for path in paths]
    files = {file.resolve(): file for group in groups for file in group.files}
    return SampleFiles(tuple(files.values()), tuple(dict.fromkeys(note for group in groups for note in group.notes)))


def _files_of(path: Path) -> SampleFiles:
    if path.is_dir():
        return _under(path)
    if not path.is_file():
        raise ResultsError(f"{path}: no such file or folder: give samples, a results file, or their folder")
    stamp = STAMP.search(path.name)
    if stamp is None:
        return SampleFiles((path,), ())
    samples = sorted(path.parent.glob(f"samples_*_{stamp[1]}.jsonl"))
    if not samples:
        raise ResultsError(f"{path}: its run left no samples_…_{stamp[1]}.jsonl in the folder: {_LOGGING}")
    return _scorable(path, samples)


def _under(folder: Path) -> SampleFiles:
    groups: dict[tuple[Path, str], list[tuple[str, Path]]] = defaultdict(list)
    for file in sorted(folder.rglob("samples_*.jsonl")):
        if name := NAME.fullmatch(file.name):
            groups[file.parent, name["task"]].append((name["stamp"], file))
    if not groups:
        raise ResultsError(f"{folder}: no samples in it or below, samples_TASK_TIME.jsonl: {_LOGGING}")
    newest = {max(group)[1]: len(group) for group in groups.values()}
    scorable = _scorable(folder, newest)
    notes = (
        f"{file.name} is the newest of {newest[file]} of its task in {file.parent}: name another file to use it"
        for file in scorable.files
        if newest[file] > 1
    )
    return SampleFiles(scorable.files, (*scorable.notes, *notes))


def _scorable(source: Path, files: Iterable[Path]) -> SampleFiles:
    """Return the files whose task can be scored. Raises ResultsError if there is no such file."""
    named = [file for file in files if NAME.fullmatch(file.name)]
    missing = {file: reason for file in named if (reason := _unscorable(file))}
    scorable = tuple(file for file in named if file not in missing)
    reasons = "; ".join(sorted(set(missing.values())))
    if not scorable:
        raise ResultsError(f"{source}: no samples that can be scored: {reasons}")
    return SampleFiles(scorable, (f"not scored: {reasons}",) if reasons else ())


def _unscorable(file: Path) -> str:
    try:
        scoring_of(file)
    except UnknownScoring as error:
        return error.problem
    except ResultsError as error:
        return str(error)
    return ""


class UnknownScoring(ResultsError):
    """Error for samples of a task without a scoring; ``problem`` names the task and the reason."""


def scoring_of(file: Path) -> Scoring:
    """Return the scoring of a file's samples, by its task's name or by the request in its first line.

    Raises:
        UnknownScoring: If its task has no scoring.
        ResultsError: If the file is not named as the harness names samples, or cannot be read.
    """
    name = NAME.fullmatch(file.name)
    if name is None:
        raise ResultsError(
            f"{file}: not named samples_TASK_TIME.jsonl: give samples that lm_eval wrote with --log_samples, under "
            "their own name"
        )
    task = name["task"]
    task_settings = {} if task in SCORINGS else _first_task_settings(file)
    scoring = scoring_name(task, task_settings)
    if scoring is not None and scoring in SCORINGS:
        return SCORINGS[scoring]
    if scoring is None:
        problem = f"{task}: its requests name no scoring, so only the harness computes its metrics"
        remedy = f"give samples of {', '.join(SCORINGS.names())}, or of a task that inherits from them"
    else:
        problem = f"{task} is scored by {scoring!r}, which no installed package registers"
        remedy = f"install the package of the task, which registers it in the entry-point group {SCORINGS.group}"
    raise UnknownScoring(f"{file}: {problem}: {remedy}", problem=problem)


def _first_task_settings(file: Path) -> Mapping[str, Any]:
    """Return the attack's settings in the first line of samples, or {} for lines of other tasks."""
    first = next(read_objects(file), None)
    return {} if first is None else task_settings_of(first[1]) or {}

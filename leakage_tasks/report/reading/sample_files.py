"""Files of samples: how the harness names them, and which of a folder can be scored."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.metrics.scoring import SCORINGS
from leakage_tasks.report.reading.run import STAMP

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
    """Those of the files whose task can be scored. Raises ResultsError if there is none."""
    tasks = {file: name["task"] for file in files if (name := NAME.fullmatch(file.name))}
    kept = tuple(file for file, task in tasks.items() if task in SCORINGS)
    others = ", ".join(sorted({task for task in tasks.values() if task not in SCORINGS}))
    if not kept:
        raise ResultsError(f"{place}: its samples are of {others}: what can be scored is {', '.join(SCORINGS)}")
    return SampleFiles(kept, (f"not scored: {others}, whose samples hold no finding",) if others else ())

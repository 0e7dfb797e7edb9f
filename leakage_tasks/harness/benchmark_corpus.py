"""Warning about a corpus that is the data of a benchmark in the same run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from leakage_tasks.core.log import warn_once

HUB = "hub:"
BUILDERS = frozenset(("json", "csv", "text", "parquet", "arrow"))
"""Values of ``dataset_path`` that name a file format, not a data set."""


def warn_of_benchmark_corpora(tasks: Iterable[Any]) -> None:
    """Warn of each task of this package whose ``data=`` is the data of another task that is a benchmark.

    Args:
        tasks: All tasks of a run. Tasks with a true attribute ``CORPUS`` read training text from ``data=``.
    """
    every = list(tasks)
    benchmarks = {
        source: _name(task) for task in every if not hasattr(task, "alone") for source in _sources(task.config)
    }
    for task in every:
        data = task.metadata.get("data") if getattr(task, "CORPUS", False) else None
        if isinstance(data, str) and (benchmark := benchmarks.get(_normal(data))) is not None:
            warn_once(
                f"{task.task_name}: data={data} is the data of the benchmark {benchmark} in this run, so matches show "
                "contamination of the benchmark, not memorization of other text: give training text"
            )


def _name(task: Any) -> str:
    return str(task.config.task)


def _sources(config: Any) -> Iterator[str]:
    """Yield the hub names and absolute paths of a benchmark's data."""
    path, options = config.dataset_path, config.dataset_kwargs or {}
    if path and path not in BUILDERS:
        yield _normal(str(path))
    files = options.get("data_files") or ()
    for part in files.values() if isinstance(files, dict) else [files]:
        for file in [part] if isinstance(part, str) else part:
            yield _normal(str(file))
    if options.get("data_dir"):
        yield _normal(str(options["data_dir"]))


def _normal(data: str) -> str:
    """Return the name on the hub without subset and revision, or the absolute path of local data."""
    if data.startswith(HUB):
        return data.removeprefix(HUB).partition("@")[0].partition(":")[0]
    return str(Path(data).resolve()) if Path(data).exists() else data

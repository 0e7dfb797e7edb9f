"""Reading one results file of the harness: what ran, what came out, and what our tasks declared about their rows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from leakage_tasks.errors import ResultsError
from leakage_tasks.report.declared import declared_from_json
from leakage_tasks.report.run import Run, TaskResult

_NEITHER = ("name", "alias", "sample_len", "sample_count", "samples")


def read_run(path: Path) -> Run:
    """The run of one results file. Raises ResultsError."""
    data = _load(path)
    config = _mapping(data.get("config", {}), path, "config")
    configs = {str(task): _mapping(each, path, f"configs.{task}") for task, each in _items(data, "configs", path)}
    parents = _parents(data, path)
    tasks = {
        task: _task(task, _mapping(values, path, f"results.{task}"), data, configs.get(task, {}), path, parents)
        for task, values in _items(data, "results", path)
    }
    arguments = _arguments(config.get("model_args"))
    source = data.get("model_name") or arguments.get("pretrained") or arguments.get("model") or config.get("model")
    versions = {name: str(data[f"{name}_version"]) for name in ("lm_eval", "transformers") if f"{name}_version" in data}
    return Run(
        model=str(config.get("model") or data.get("model_source") or "unknown"),
        source=str(source or "unknown"),
        arguments=arguments,
        tasks={task: result for task, result in tasks.items() if any(result.values.values())},
        files=(path,),
        date=_number(data.get("date")) or 0.0,
        config=config,
        configs=configs,
        versions=versions,
    )


def _load(path: Path) -> Mapping[str, Any]:
    remedy = "give a results_….json that lm_eval wrote with --output_path"
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror}): check the path") from None
    except json.JSONDecodeError as error:
        reason = f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise ResultsError(f"{path}: {reason}: {remedy}") from None
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise ResultsError(f"{path}: not a JSON file: {remedy}") from None
    if not isinstance(data, dict) or not isinstance(data.get("results"), dict):
        raise ResultsError(f"{path}: field 'results': missing, so this is no results file: {remedy}")
    return data


def _items(data: Mapping[str, Any], name: str, path: Path) -> Iterator[tuple[str, Any]]:
    yield from _mapping(data.get(name, {}), path, name).items()


def _mapping(value: Any, path: Path, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ResultsError(
            f"{path}: field '{name}': expected an object, found {json.dumps(value)[:40]}: give the file as lm_eval "
            "wrote it"
        )
    return value


def _task(
    task: str,
    row: Mapping[str, Any],
    data: Mapping[str, Any],
    config: Mapping[str, Any],
    path: Path,
    parents: Mapping[str, tuple[str, ...]],
) -> TaskResult:
    values: dict[str, dict[str, float | None]] = {}
    errors: dict[str, dict[str, float | None]] = {}
    for key, value in row.items():
        metric, _, column = key.rpartition(",")
        if not metric or key in _NEITHER:
            continue
        where, name = (errors, metric.removesuffix("_stderr")) if metric.endswith("_stderr") else (values, metric)
        where.setdefault(column, {})[name] = _number(value)
    counts = _mapping(data.get("n-samples", {}), path, "n-samples").get(task) or {}
    shots = _number(_mapping(data.get("n-shot", {}), path, "n-shot").get(task))
    used = _number(counts.get("effective")) if isinstance(counts, dict) else None
    return TaskResult(
        task=task,
        values=values,
        errors=errors,
        higher_is_better=_mapping(data.get("higher_is_better", {}), path, "higher_is_better").get(task) or {},
        samples=None if used is None else int(used),
        declared=declared_from_json(config.get("leakage"), f"{path}: field 'configs.{task}.leakage'"),
        file=path,
        shots=None if shots is None else int(shots),
        parents=parents.get(task, ()),
    )


def _number(value: Any) -> float | None:
    """A figure as the harness writes it: ``N/A``, null and NaN are none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _parents(data: Mapping[str, Any], path: Path) -> dict[str, tuple[str, ...]]:
    """The groups of each task, at any depth."""
    members = dict(_items(data, "group_subtasks", path))
    above: dict[str, tuple[str, ...]] = {}
    for group in members:
        pending, seen = list(members[group]), set()
        while pending:
            task = pending.pop()
            if task not in seen:
                seen.add(task)
                above[task] = (*above.get(task, ()), group)
                pending += members.get(task, [])
    return above


def _arguments(given: Any) -> dict[str, Any]:
    """A model's arguments, which some versions of the harness write as ``name=value,…``."""
    if isinstance(given, dict):
        return given
    pairs = (part.partition("=") for part in str(given or "").split(",") if part)
    return {name: value for name, _, value in pairs}

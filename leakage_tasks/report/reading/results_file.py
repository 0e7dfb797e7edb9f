"""Reading one results file of the harness: what ran, what came out, and what our tasks declared about their rows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.inputs import parse_json, read_text
from leakage_tasks.metrics.metric import MORE
from leakage_tasks.report.reading.declared import Declared, declared_from_json
from leakage_tasks.report.reading.run import Run, TaskResult, Values
from leakage_tasks.report.reading.validate import WrongField, finite, printable

_NEITHER = ("name", "alias", "sample_len", "sample_count", "samples")
_YEAR_9999 = 253_370_764_800


def read_run(path: Path) -> Run:
    """The run of one results file. Raises ResultsError."""
    data = _load(path)
    try:
        return _run(data, path)
    except WrongField as error:
        name = printable(error.name)
        raise ResultsError(f"{path}: field '{name}': {error.what}: give the file as lm_eval wrote it") from None


def _run(data: Mapping[str, Any], path: Path) -> Run:
    config = _mapping(data.get("config", {}), "config")
    configs = {task: _mapping(each, f"configs.{task}") for task, each in _items(data, "configs")}
    parents = _parents(data)
    date = _date(data.get("date"))
    tasks = {
        printable(task): _task(task, _mapping(row, f"results.{task}"), data, configs.get(task, {}), path, parents, date)
        for task, row in _items(data, "results")
    }
    arguments = _arguments(config.get("model_args"))
    if config.get("limit") is not None:
        finite(config["limit"], "config.limit")
    source = data.get("model_name") or arguments.get("pretrained") or arguments.get("model") or config.get("model")
    versions = {name: str(data[f"{name}_version"]) for name in ("lm_eval", "transformers") if f"{name}_version" in data}
    return Run(
        model=printable(str(config.get("model") or data.get("model_source") or "unknown")),
        source=printable(str(source or "unknown")),
        arguments=arguments,
        tasks={task: result for task, result in tasks.items() if any(result.values.values())},
        files=(path,),
        date=date,
        config=config,
        configs=configs,
        versions={name: printable(version) for name, version in versions.items()},
    )


def _load(path: Path) -> Mapping[str, Any]:
    remedy = "give a results_….json that lm_eval wrote with --output_path"
    try:
        data = parse_json(read_text(path, "utf-8-sig"))
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror}): check the path") from None
    except json.JSONDecodeError as error:
        reason = f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise ResultsError(f"{path}: {reason}: {remedy}") from None
    except (UnicodeDecodeError, ValueError):
        raise ResultsError(f"{path}: not a JSON file: {remedy}") from None
    if not isinstance(data, dict) or not isinstance(data.get("results"), dict):
        raise ResultsError(f"{path}: field 'results': missing, so this is no results file: {remedy}")
    return data


def _items(data: Mapping[str, Any], name: str) -> Iterator[tuple[str, Any]]:
    yield from _mapping(data.get(name, {}), name).items()


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise WrongField(name, "an object", value)
    return value


def _task(
    task: str,
    row: Mapping[str, Any],
    data: Mapping[str, Any],
    config: Mapping[str, Any],
    path: Path,
    parents: Mapping[str, tuple[str, ...]],
    date: float,
) -> TaskResult:
    values: dict[str, dict[str, float | None]] = {}
    errors: dict[str, dict[str, float | None]] = {}
    for key, value in row.items():
        metric, _, column = printable(key).rpartition(",")
        if not metric or key in _NEITHER:
            continue
        where, name = (errors, metric.removesuffix("_stderr")) if metric.endswith("_stderr") else (values, metric)
        where.setdefault(column, {})[name] = _number(value, f"results.{task}.{key}")
    declared = declared_from_json(config.get("leakage"), f"{path}: field 'configs.{printable(task)}.leakage'")
    if declared is not None:
        if declared.more:
            own = values.setdefault(HEADLINE, {})
            own.pop(MORE, None)
            values[HEADLINE] = {**declared.more, **own}
        _check_counts(task, values, declared)
    shots = _number(_mapping(data.get("n-shot", {}), "n-shot").get(task), f"n-shot.{task}")
    return TaskResult(
        task=printable(task),
        values=values,
        errors=errors,
        higher_is_better=_directions(task, data),
        samples=_samples(task, row, data),
        declared=declared,
        file=path,
        shots=None if shots is None else int(shots),
        parents=parents.get(task, ()),
        date=date,
    )


def _check_counts(task: str, values: Values, declared: Declared) -> None:
    """Raise WrongField for a number of documents that is none."""
    counts = {row.count for row in declared.rows.values()}
    for column, row in values.items():
        for metric, value in row.items():
            if metric in counts and value is not None and value < 0:
                raise WrongField(f"results.{task}.{metric},{column}", "a number of documents", value, f"{value:g}")


def _directions(task: str, data: Mapping[str, Any]) -> dict[str, bool | None]:
    given = _mapping(data.get("higher_is_better", {}), "higher_is_better").get(task)
    found = {} if given is None else _mapping(given, f"higher_is_better.{task}")
    for metric, value in found.items():
        if not (value is None or isinstance(value, bool)):
            raise WrongField(f"higher_is_better.{task}.{metric}", "true or false", value)
    return {printable(metric): value for metric, value in found.items()}


def _samples(task: str, row: Mapping[str, Any], data: Mapping[str, Any]) -> int | None:
    """How many documents were used. Groups stand for themselves only in their row."""
    counts = _mapping(data.get("n-samples", {}), "n-samples").get(task)
    if isinstance(counts, dict) and counts.get("effective") is not None:
        used = _number(counts["effective"], f"n-samples.{task}.effective")
    else:
        used = _number(row.get("sample_len"), f"results.{task}.sample_len")
    return None if used is None else int(used)


def _number(value: Any, name: str) -> float | None:
    """A figure as the harness writes it: ``N/A``, null and NaN are none. Raises WrongField if it is too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return finite(value, name)


def _date(given: Any) -> float:
    """Seconds since 1970; 0 where they are not known. Raises WrongField for a time that is on no calendar."""
    date = _number(given, "date") or 0.0
    if not 0 <= date < _YEAR_9999:
        raise WrongField("date", "seconds since 1970", given, f"{date:g}")
    return date


def _parents(data: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The groups of each task, at any depth."""
    members = dict(_items(data, "group_subtasks"))
    for group, each in members.items():
        if not isinstance(each, list) or not all(isinstance(task, str) for task in each):
            raise WrongField(f"group_subtasks.{group}", "a list of tasks", each)
    above: dict[str, tuple[str, ...]] = {}
    for group in members:
        pending, seen = list(members[group]), set()
        while pending:
            task = pending.pop()
            if task not in seen:
                seen.add(task)
                above[task] = (*above.get(task, ()), printable(group))
                pending += members.get(task, [])
    return above


def _arguments(given: Any) -> dict[str, Any]:
    """A model's arguments, which some versions of the harness write as ``name=value,…``."""
    if isinstance(given, dict):
        return given
    if not (given is None or isinstance(given, str)):
        raise WrongField("config.model_args", "an object or text", given)
    pairs = (part.partition("=") for part in (given or "").split(",") if part)
    return {name: value for name, _, value in pairs}

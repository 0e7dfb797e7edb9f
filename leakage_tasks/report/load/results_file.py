"""Reading of one results file of the harness: the run's settings, its values, and the declarations of our tasks."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.former_names import current_metric, current_metrics, headline_among
from leakage_tasks.core.inputs import json_fault
from leakage_tasks.core.records import WrongField, finite, mapping
from leakage_tasks.metrics.metric import MORE
from leakage_tasks.report.load.declared import Declared, declared_from_json
from leakage_tasks.report.load.run import ADDED, Run, TaskResult, Values
from leakage_tasks.report.load.validate import load_json, printable

_NO_METRICS = ("name", "alias", "sample_len", "sample_count", "samples")
_PREDICTED_ONLY = {"bypass"}
"""The metric that replaces all others under ``--predict_only``; its value means nothing."""
_YEAR_9999 = 253_370_764_800


def read_run(path: Path) -> Run:
    """Read the run of one results file. Raises ResultsError."""
    data = _load(path)
    try:
        return _run(data, path)
    except WrongField as error:
        name = printable(error.name)
        raise ResultsError(f"{path}: field '{name}': {error.what}: give the file as lm_eval wrote it") from None


def _run(data: Mapping[str, Any], path: Path) -> Run:
    config, configs = _part(data, "config"), _part(data, "configs")
    for task, settings in configs.items():
        mapping(settings, f"configs.{task}")
    parents = _parents(_part(data, "group_subtasks"))
    date = _date(data.get("date"))
    results = {printable(task): _task(task, data, path) for task in _part(data, "results")}
    tasks = {
        task: dataclasses.replace(result, parents=parents.get(task, ()), date=date)
        for task, result in results.items()
        if result.predicted_only or any(result.values.values())
    }
    arguments = _arguments(config.get("model_args"))
    if config.get("limit") is not None:
        finite(config["limit"], "config.limit")
    source = _named(data, arguments) or arguments.get("pretrained") or arguments.get("model") or config.get("model")
    versions = {name: data[f"{name}_version"] for name in ("lm_eval", "transformers") if f"{name}_version" in data}
    return Run(
        model=printable(str(config.get("model") or data.get("model_source") or "unknown")),
        source=printable(str(source or "unknown")),
        arguments=arguments,
        tasks=tasks,
        files=(path,),
        date=date,
        config=config,
        configs=configs,
        versions={name: printable(str(version)) for name, version in versions.items()},
    )


def _load(path: Path) -> Mapping[str, Any]:
    remedy = "give a results_….json that lm_eval wrote with --output_path"
    try:
        data = load_json(path, "utf-8-sig")
    except json.JSONDecodeError as error:
        fault = json_fault(error)
        reason = f"not JSON: {fault.reason} at line {fault.line}, column {fault.column}"
        raise ResultsError(f"{path}: {reason}: {remedy}") from None
    except (UnicodeDecodeError, ValueError):
        raise ResultsError(f"{path}: not a JSON file: {remedy}") from None
    if not isinstance(data, dict) or not isinstance(data.get("results"), dict):
        raise ResultsError(f"{path}: field 'results': missing, so this is not a results file: {remedy}")
    return data


def _named(data: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    """Return the model's name as the harness wrote it, or None if that is the name of an adapter on a base model.

    The harness names a model after its adapter, if it has one.
    """
    name = data.get("model_name")
    added = {str(arguments[option]) for option in ADDED if arguments.get(option)}
    return None if arguments.get("pretrained") and str(name) in added else name


def _part(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return mapping(data.get(name, {}), name)


def _task(task: str, data: Mapping[str, Any], path: Path) -> TaskResult:
    row = mapping(data["results"][task], f"results.{task}")
    declaration = _part(data, "configs").get(task, {}).get("leakage")
    # Tasks of others may have metrics that are no numbers, such as a text; reports leave them out.
    read = _number if declaration is None else _metric_value
    values: dict[str, dict[str, float | None]] = {}
    errors: dict[str, dict[str, float | None]] = {}
    for key, value in row.items():
        metric, _, column = printable(key).rpartition(",")
        if not metric or key in _NO_METRICS:
            continue
        target, name = (errors, metric.removesuffix("_stderr")) if metric.endswith("_stderr") else (values, metric)
        target.setdefault(column, {})[name] = read(value, f"results.{task}.{key}")
    predicted_only = {metric for metrics in values.values() for metric in metrics} == _PREDICTED_ONLY
    if predicted_only:
        values, errors = {}, {}
    declared = declared_from_json(declaration, f"{path}: field 'configs.{printable(task)}.leakage'")
    directions = _directions(task, data)
    if declared is not None:
        rename = partial(current_metrics, headline=headline_among(declared.rows))
        values = {column: rename(metrics) for column, metrics in values.items()}
        errors, directions = {column: rename(metrics) for column, metrics in errors.items()}, rename(directions)
        if declared.more:
            headline = values.setdefault(HEADLINE, {})
            headline.pop(MORE, None)
            values[HEADLINE] = {**declared.more, **headline}
        _check_counts(task, values, declared)
    shots = _count(_part(data, "n-shot").get(task), f"n-shot.{task}")
    return TaskResult(
        *(printable(task), values, errors, directions, _samples(task, row, data), declared, path, shots),
        limited=_limited(task, data),
        predicted_only=predicted_only,
        documents_hash=printable(str(_part(data, "task_hashes").get(task, ""))),
    )


def _check_counts(task: str, values: Values, declared: Declared) -> None:
    """Raise WrongField if a number of documents is negative."""
    counts = {row.count for row in declared.rows.values()}
    for column, row in values.items():
        for metric, value in row.items():
            if metric in counts and value is not None and value < 0:
                raise WrongField(f"results.{task}.{metric},{column}", "a number of documents", value, f"{value:g}")


def _directions(task: str, data: Mapping[str, Any]) -> dict[str, bool | None]:
    declared = _part(data, "higher_is_better").get(task)
    directions = {} if declared is None else mapping(declared, f"higher_is_better.{task}")
    for metric, value in directions.items():
        if not (value is None or isinstance(value, bool)):
            raise WrongField(f"higher_is_better.{task}.{metric}", "true or false", value)
    return {printable(metric): value for metric, value in directions.items()}


def _samples(task: str, row: Mapping[str, Any], data: Mapping[str, Any]) -> int | None:
    """Return the number of documents used; a group's number is only in its row of results."""
    counts = _part(data, "n-samples").get(task)
    if isinstance(counts, dict) and counts.get("effective") is not None:
        return _count(counts["effective"], f"n-samples.{task}.effective")
    return _count(row.get("sample_len"), f"results.{task}.sample_len")


def _limited(task: str, data: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the numbers of documents used and available, or None if all were used."""
    counts = _part(data, "n-samples").get(task)
    if not isinstance(counts, dict):
        return None
    used, whole = (_count(counts.get(name), f"n-samples.{task}.{name}") for name in ("effective", "original"))
    return (used, whole) if used is not None and whole is not None and used < whole else None


def _metric_value(value: Any, name: str) -> float | None:
    """Return a metric's value as :func:`_number` does.

    Raises WrongField for a boolean, and for a text other than ``N/A``.
    """
    if isinstance(value, bool) or (isinstance(value, str) and value != "N/A"):
        raise WrongField(name, "a number", value)
    return _number(value, name)


def _number(value: Any, name: str) -> float | None:
    """Return a value that the harness wrote; ``N/A``, null and NaN become None. Raises WrongField if too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if isinstance(value, float) and not math.isfinite(value) else finite(value, name)


def _count(value: Any, name: str) -> int | None:
    number = _number(value, name)
    return None if number is None else int(number)


def _date(value: Any) -> float:
    """Return seconds since 1970, 0 if unknown. Raises WrongField for a time outside the calendar."""
    date = _number(value, "date") or 0.0
    if not 0 <= date < _YEAR_9999:
        raise WrongField("date", "seconds since 1970", value, f"{date:g}")
    return date


def _parents(members: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return all groups that contain a task, at any depth, from the members of each group."""
    for group, names in members.items():
        if not isinstance(names, list) or not all(isinstance(task, str) for task in names):
            raise WrongField(f"group_subtasks.{group}", "a list of tasks", names)
    above: dict[str, tuple[str, ...]] = {}
    for group in members:
        pending, seen = list(members[group]), set()
        while pending:
            task = pending.pop()
            if task not in seen:
                seen.add(task)
                name = printable(task)
                above[name] = (*above.get(name, ()), printable(group))
                pending += members.get(task, [])
    return above


def _arguments(arguments: Any) -> dict[str, Any]:
    """Return a model's arguments; some versions of the harness write them as ``name=value,…``."""
    if isinstance(arguments, dict):
        return arguments
    if not (arguments is None or isinstance(arguments, str)):
        raise WrongField("config.model_args", "an object or text", arguments)
    pairs = (part.partition("=") for part in (arguments or "").split(",") if part)
    return {name: value for name, _, value in pairs}


def every_row(results: Mapping[str, Any], task: str, column: str = HEADLINE) -> dict[str, Any]:
    """Return a task's values by metric, given the result of ``lm_eval.simple_evaluate`` or a results file's content.

    ``column`` is the harness' filter; standard errors are left out. Raises KeyError if the task did not run.
    """
    declared = current_metrics(results.get("configs", {}).get(task, {}).get("leakage", {}))
    hidden = declared.get(MORE, {}) if column == HEADLINE else {}
    named = ((name.rpartition(","), value) for name, value in results["results"][task].items())
    shown = {metric: value for (metric, _, of), value in named if of == column and not metric.endswith("_stderr")}
    rows = current_metrics({**hidden, **shown}, headline_among(shown) or headline_among(hidden))
    return {name: value for name, value in rows.items() if name != MORE}


def headline_row(rows: Mapping[str, Any], metric: str) -> Any:
    """Return the value for the lowest number of copies, or the metric's own value if it has no such rows."""
    metric = current_metric(metric, headline_among(rows))
    copies = [name.removeprefix(f"{metric}_x") for name in rows if name.startswith(f"{metric}_x")]
    fewest = min((int(copy) for copy in copies if copy.isdecimal()), default=None)
    return rows[metric if fewest is None else f"{metric}_x{fewest}"]

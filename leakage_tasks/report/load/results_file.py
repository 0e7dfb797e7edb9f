"""Reading one results file of the harness: what ran, what came out, and what our tasks declared about their rows."""

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
from leakage_tasks.metrics.metric import MORE
from leakage_tasks.report.load.declared import Declared, declared_from_json
from leakage_tasks.report.load.run import ADDED, Run, TaskResult, Values
from leakage_tasks.report.load.validate import WrongField, finite, load_json, mapping, printable

_NEITHER = ("name", "alias", "sample_len", "sample_count", "samples")
_PREDICTED_ONLY = {"bypass"}
"""The metric that the harness puts in place of all others under ``--predict_only``; its value means nothing."""
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
    config, configs = _part(data, "config"), _part(data, "configs")
    for task, each in configs.items():
        mapping(each, f"configs.{task}")
    parents = _parents(_part(data, "group_subtasks"))
    date = _date(data.get("date"))
    found = {printable(task): _task(task, data, path) for task in _part(data, "results")}
    tasks = {
        task: dataclasses.replace(result, parents=parents.get(task, ()), date=date)
        for task, result in found.items()
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
        raise ResultsError(f"{path}: field 'results': missing, so this is no results file: {remedy}")
    return data


def _named(data: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    """Return the harness' name of the model, None for one that is the name of an adapter on a base model.

    The harness calls a model after its adapter, if it has one.
    """
    name = data.get("model_name")
    added = {str(arguments[each]) for each in ADDED if arguments.get(each)}
    return None if arguments.get("pretrained") and name in added else name


def _part(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return mapping(data.get(name, {}), name)


def _task(task: str, data: Mapping[str, Any], path: Path) -> TaskResult:
    row = mapping(data["results"][task], f"results.{task}")
    values: dict[str, dict[str, float | None]] = {}
    errors: dict[str, dict[str, float | None]] = {}
    for key, value in row.items():
        metric, _, column = printable(key).rpartition(",")
        if not metric or key in _NEITHER:
            continue
        where, name = (errors, metric.removesuffix("_stderr")) if metric.endswith("_stderr") else (values, metric)
        where.setdefault(column, {})[name] = _number(value, f"results.{task}.{key}")
    predicted_only = {metric for each in values.values() for metric in each} == _PREDICTED_ONLY
    if predicted_only:
        values, errors = {}, {}
    given = _part(data, "configs").get(task, {}).get("leakage")
    declared = declared_from_json(given, f"{path}: field 'configs.{printable(task)}.leakage'")
    directions = _directions(task, data)
    if declared is not None:
        rename = partial(current_metrics, headline=headline_among(declared.rows))
        values = {column: rename(own) for column, own in values.items()}
        errors, directions = {column: rename(own) for column, own in errors.items()}, rename(directions)
        if declared.more:
            own = values.setdefault(HEADLINE, {})
            own.pop(MORE, None)
            values[HEADLINE] = {**declared.more, **own}
        _check_counts(task, values, declared)
    shots = _count(_part(data, "n-shot").get(task), f"n-shot.{task}")
    return TaskResult(
        *(printable(task), values, errors, directions, _samples(task, row, data), declared, path, shots),
        limited=_limited(task, data),
        predicted_only=predicted_only,
    )


def _check_counts(task: str, values: Values, declared: Declared) -> None:
    """Raise WrongField for a number of documents that is none."""
    counts = {row.count for row in declared.rows.values()}
    for column, row in values.items():
        for metric, value in row.items():
            if metric in counts and value is not None and value < 0:
                raise WrongField(f"results.{task}.{metric},{column}", "a number of documents", value, f"{value:g}")


def _directions(task: str, data: Mapping[str, Any]) -> dict[str, bool | None]:
    given = _part(data, "higher_is_better").get(task)
    found = {} if given is None else mapping(given, f"higher_is_better.{task}")
    for metric, value in found.items():
        if not (value is None or isinstance(value, bool)):
            raise WrongField(f"higher_is_better.{task}.{metric}", "true or false", value)
    return {printable(metric): value for metric, value in found.items()}


def _samples(task: str, row: Mapping[str, Any], data: Mapping[str, Any]) -> int | None:
    """How many documents were used. Groups stand for themselves only in their row."""
    counts = _part(data, "n-samples").get(task)
    if isinstance(counts, dict) and counts.get("effective") is not None:
        return _count(counts["effective"], f"n-samples.{task}.effective")
    return _count(row.get("sample_len"), f"results.{task}.sample_len")


def _limited(task: str, data: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the number of documents that were used and of all, if some were left out."""
    counts = _part(data, "n-samples").get(task)
    if not isinstance(counts, dict):
        return None
    used, whole = (_count(counts.get(name), f"n-samples.{task}.{name}") for name in ("effective", "original"))
    return (used, whole) if used is not None and whole is not None and used < whole else None


def _number(value: Any, name: str) -> float | None:
    """A figure as the harness writes it: ``N/A``, null and NaN are none. Raises WrongField if it is too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if isinstance(value, float) and not math.isfinite(value) else finite(value, name)


def _count(value: Any, name: str) -> int | None:
    found = _number(value, name)
    return None if found is None else int(found)


def _date(given: Any) -> float:
    """Seconds since 1970; 0 where they are not known. Raises WrongField for a time that is on no calendar."""
    date = _number(given, "date") or 0.0
    if not 0 <= date < _YEAR_9999:
        raise WrongField("date", "seconds since 1970", given, f"{date:g}")
    return date


def _parents(members: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The groups of each task, at any depth, given the members of each."""
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
                name = printable(task)
                above[name] = (*above.get(name, ()), printable(group))
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


def every_row(results: Mapping[str, Any], task: str, column: str = HEADLINE) -> dict[str, Any]:
    """By metric, what a task came to, given what ``lm_eval.simple_evaluate`` returns or a results file holds.

    ``column`` is the harness' filter; standard errors are left out. Raises KeyError for a task that did not run.
    """
    declared = current_metrics(results.get("configs", {}).get(task, {}).get("leakage", {}))
    told = declared.get(MORE, {}) if column == HEADLINE else {}
    named = ((name.rpartition(","), value) for name, value in results["results"][task].items())
    shown = {metric: value for (metric, _, of), value in named if of == column and not metric.endswith("_stderr")}
    rows = current_metrics({**told, **shown}, headline_among(shown) or headline_among(told))
    return {name: value for name, value in rows.items() if name != MORE}


def headline_row(rows: Mapping[str, Any], metric: str) -> Any:
    """The value of the canaries that were planted the fewest times; of a metric without such rows its own."""
    metric = current_metric(metric, headline_among(rows))
    copies = [name.removeprefix(f"{metric}_x") for name in rows if name.startswith(f"{metric}_x")]
    fewest = min((int(copy) for copy in copies if copy.isdecimal()), default=None)
    return rows[metric if fewest is None else f"{metric}_x{fewest}"]

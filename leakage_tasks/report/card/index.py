"""Primary metrics of a run as results in a model card's ``model-index``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leakage_tasks.metrics.exposure import NOT_AT_CHANCE
from leakage_tasks.report.board.board import Board, Column
from leakage_tasks.report.load.figures import Figure, Flag
from leakage_tasks.stats.intervals import LEVEL

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

KEY = "model-index"
OURS = "lm-eval-leakage"
"""The start of the data set's type in our results; the task's name follows."""
_PIPELINES = {
    **dict.fromkeys(("classifier-scorer", "frankenstein-mlm", "nlu-tagger"), "text-classification"),
    "masked-lm": "fill-mask",
}
"""The hub's task type by ``--model``, for earlier results that do not record it."""


def eval_results(board: Board, pipeline: object = None) -> list[EvalResult]:
    """Return one result per primary metric of a board's single run, leakage first.

    Left out are null values, numbers of copies with too few canaries for an interval, and tasks that are
    :func:`unfit`, since the hub shows results without their flags. ``pipeline`` is the card's ``pipeline_tag``, which
    takes precedence as the task type.
    """
    (entry,) = board.entries
    recorded = entry.run.config.get("model_pipeline") or _PIPELINES.get(entry.run.model, "text-generation")
    task = pipeline if isinstance(pipeline, str) and pipeline else one_line(str(recorded))
    shown = [column for column in board.columns if column.shown and column.task not in unfit(board)]
    figures = [(column, entry.figure(column)) for column in shown if entry.figure(column).value is not None]
    # Without an interval, the value of a few canaries would look more certain than it is.
    return [_result(task, *pair) for pair in figures if pair[0].copies is None or pair[1].low is not None]


def unfit(board: Board) -> dict[str, str]:
    """Return the tasks whose values may not be published on their own, each with the reason."""
    flags = (flag for flag in board.entries[0].flags if flag.unranked)
    return {flag.task: _reason(flag) for flag in flags}


def _reason(flag: Flag) -> str:
    """Return why a task's values may not be published on their own, without the remedy of a fault."""
    if not flag.fault:
        return flag.words
    if flag.waiver == NOT_AT_CHANCE.name:
        return "the controls show a fault"
    return flag.words.rpartition(": ")[0] or flag.words


def _result(task: str, column: Column, figure: Figure) -> EvalResult:
    from huggingface_hub import EvalResult

    # A reader who takes a single number from a card gets the worse end of its interval.
    worse = figure.value
    if column.leakage and figure.low is not None and figure.high is not None:
        worse = figure.low if column.direction == "higher" else figure.high
    arguments = {
        "estimate": None if worse == figure.value else figure.value,
        "ci_low": figure.low,
        "ci_high": figure.high,
        "ci_level": None if figure.low is None else LEVEL,
        "ci_kind": figure.kind,
        "count": figure.count,
        "controls": figure.control,
        "chance": column.chance,
        "unit": column.unit,
        "direction": column.direction,
    }
    return EvalResult(
        task_type=task,
        # The hub accepts only letters, digits and a few other characters in a data set's type.
        dataset_type=f"{OURS}/{re.sub(r'[^A-Za-z0-9_.-]', '_', column.task)}",
        dataset_name=one_line(column.task),
        metric_type=one_line(column.name),
        metric_value=worse,
        metric_name=one_line(column.title if worse == figure.value else f"{column.title} (worse end of the interval)"),
        metric_args={
            name: one_line(value) if isinstance(value, str) else value
            for name, value in arguments.items()
            if value not in (None, "")
        },
    )


def one_line(text: str) -> str:
    """Return a text as one line of valid Unicode."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


def is_ours(result: object) -> bool:
    """Return True for a model-index entry, as parsed from YAML, that this package made."""
    dataset = result.get("dataset") if isinstance(result, dict) else None
    return isinstance(dataset, dict) and str(dataset.get("type")).startswith(f"{OURS}/")


def model_name(data: Mapping[str, Any], run_name: str, name: str | None) -> str:
    """Choose the model's name for the model-index.

    It is ``name`` if given, else the entry with the run's name, else the first entry, else the run's name.
    """
    if name is not None:
        return one_line(name)
    index, default = data.get(KEY), one_line(run_name)
    names = [entry.get("name") for entry in index if isinstance(entry, dict)] if isinstance(index, list) else []
    return default if default in names or not names or not isinstance(names[0], str) else names[0]

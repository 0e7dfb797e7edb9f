"""A run's headline figures as results of a model card's ``model-index``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leakage_tasks.report.board.board import Board, Column
from leakage_tasks.report.load.figures import Figure

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

KEY = "model-index"
OURS = "lm-eval-leakage"
"""The results of a model-index are ours where their data set's type is this and a task's name."""
_UNSAID = {
    **dict.fromkeys(("classifier-scorer", "frankenstein-mlm", "nlu-tagger"), "text-classification"),
    "masked-lm": "fill-mask",
}
"""The hub's name for what a model does, by ``--model``, in results from before models said it themselves."""
LEVEL = 0.95


def eval_results(board: Board, pipeline: object = None) -> list[EvalResult]:
    """One result for each headline figure of a board's one run, leakage first.

    Left out are figures that are null, those of a number of copies with too few canaries for an interval, and those of
    tasks that are :func:`unfit`: the hub shows results without their flags. ``pipeline`` is the card's
    ``pipeline_tag``: the task type, if there is one.
    """
    (entry,) = board.entries
    usual = entry.run.config.get("model_pipeline") or _UNSAID.get(entry.run.model, "text-generation")
    task = pipeline if isinstance(pipeline, str) and pipeline else one_line(str(usual))
    shown = [column for column in board.columns if column.shown and column.task not in unfit(board)]
    found = [(column, entry.figure(column)) for column in shown if entry.figure(column).value is not None]
    # Of so few canaries that there is no interval a figure would look better.
    return [_result(task, *each) for each in found if each[0].copies is None or each[1].low is not None]


def unfit(board: Board) -> dict[str, str]:
    """The tasks of a board's one run whose figures may not stand alone, each with the reason."""
    flags = (flag for flag in board.entries[0].flags if flag.unranked)
    return {flag.task: "the controls show a fault" if flag.fault else flag.words for flag in flags}


def _result(task: str, column: Column, found: Figure) -> EvalResult:
    from huggingface_hub import EvalResult

    # Who takes one number from a card takes the worse end of what it may be.
    worse = found.value
    if column.leakage and found.low is not None and found.high is not None:
        worse = found.low if column.direction == "higher" else found.high
    told = {
        "estimate": None if worse == found.value else found.value,
        "ci_low": found.low,
        "ci_high": found.high,
        "ci_level": None if found.low is None else LEVEL,
        "ci_kind": found.kind,
        "count": found.count,
        "controls": found.control,
        "chance": column.chance,
        "unit": column.unit,
        "direction": column.direction,
    }
    return EvalResult(
        task_type=task,
        # The hub takes letters, digits and few other characters in a data set's type.
        dataset_type=f"{OURS}/{re.sub(r'[^A-Za-z0-9_.-]', '_', column.task)}",
        dataset_name=one_line(column.task),
        metric_type=one_line(column.name),
        metric_value=worse,
        metric_name=one_line(column.title if worse == found.value else f"{column.title} (worse end of the interval)"),
        metric_args={
            name: one_line(value) if isinstance(value, str) else value
            for name, value in told.items()
            if value not in (None, "")
        },
    )


def one_line(text: str) -> str:
    """A text without line ends and without what is no text at all."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


def is_ours(result: object) -> bool:
    """Whether a result of a model-index, as YAML holds it, is one of those made here."""
    dataset = result.get("dataset") if isinstance(result, dict) else None
    return isinstance(dataset, dict) and str(dataset.get("type")).startswith(f"{OURS}/")


def model_name(data: Mapping[str, Any], run_name: str, asked: str | None) -> str:
    """The model whose results they are, given what the front matter says.

    It is ``asked``; else that of the model-index which is called as the run; else its first; else the run's name.
    """
    if asked is not None:
        return one_line(asked)
    index, own = data.get(KEY), one_line(run_name)
    names = [each.get("name") for each in index if isinstance(each, dict)] if isinstance(index, list) else []
    return own if own in names or not names or not isinstance(names[0], str) else names[0]

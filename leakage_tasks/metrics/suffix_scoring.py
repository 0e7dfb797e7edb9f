"""Scoring of the task ``suffix_extraction``, and the values of a pair, which ``memorization`` shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from leakage_tasks.attacks.suffix import finding as suffix_finding
from leakage_tasks.attacks.suffix.confidences import CONFIDENCES
from leakage_tasks.attacks.suffix.finding import SelectedView, Selection, SuffixFinding
from leakage_tasks.attacks.suffix.request import DEFAULT_CONFIDENCE
from leakage_tasks.attacks.suffix.trained_confidence import TRAINED
from leakage_tasks.core import task_names
from leakage_tasks.metrics.aggregates import count
from leakage_tasks.metrics.metric import Metric, MetricSpec
from leakage_tasks.metrics.scoring import OF_GOAL, Scoring, TaskSettings, Values, register_scoring
from leakage_tasks.metrics.suffixes import suffix_metrics
from leakage_tasks.metrics.tiers import Copies
from leakage_tasks.targets.suffix.decoding_config import DECODING_OPTIONS, DecodingConfig

LEFT_OUT: Metric[SelectedView, Any] = MetricSpec(
    "left_out", "pairs left out because their tokens change when decoded and encoded again"
).row(lambda selected: None, count, in_table=True)
"""Metric whose values are set in :func:`values_of_pair`, because a pair that was left out has no view."""
NULLS = ("recall", "recall_early_stop", "p_z")
"""Rows of an unanswered ``suffix_extraction``; with all rows, the table would be full of nulls."""


def selection_of(column: str, task_settings: TaskSettings) -> Selection:
    """Return the view and confidence that a column of ``suffix_extraction`` shows, from the column's name."""
    known = [*CONFIDENCES, TRAINED]
    views = [] if column in (suffix_finding.HEADLINE, *known) else [column]
    named = {
        selection.name: selection
        for selection in suffix_finding.selections(task_settings.get("confidence", DEFAULT_CONFIDENCE), known, views)
    }
    return named[column]


def selected_view(answer: str, column: str, task_settings: TaskSettings) -> SelectedView | None:
    """Return the view of one answer for a column; None for a pair that was left out."""
    return selection_of(column, task_settings).select(suffix_finding.suffix_finding_from_json(answer))


_suffix_rows = lru_cache(suffix_metrics)


def _rows_for(task_settings: TaskSettings) -> Sequence[Metric[SelectedView, Any]]:
    return _suffix_rows(task_settings.get("wrong"), task_settings.get("controls") is not None)


def _suffix_values(answer: str, column: str, task_settings: TaskSettings, copies: Copies) -> Values:
    selection, finding = selection_of(column, task_settings), suffix_finding.suffix_finding_from_json(answer)
    scheme = DecodingConfig(**{name: task_settings[name] for name in DECODING_OPTIONS if name in task_settings})
    return values_of_pair(finding, selection, scheme, _rows_for(task_settings))


def values_of_pair(
    finding: SuffixFinding, selection: Selection, scheme: DecodingConfig, rows: Iterable[Metric[SelectedView, Any]]
) -> Values:
    """Return the values of ``rows`` for the selected view of one pair; all None if the pair was left out.

    ``scheme`` is the run's decoding, which decides on the rows of a pair that was left out.
    """
    selected = selection.select(finding)
    like = selected or suffix_finding.left_out_view(finding, selection, scheme)
    values: Values = {row.name: None if selected is None else row.value(selected) for row in rows if row.applies(like)}
    if selection.kind == "headline" and finding.nodes == 0:
        values[LEFT_OUT.name] = 1.0 if selected is None and not finding.control else None
    return values


def _unscored(task_settings: TaskSettings) -> Mapping[str, str]:
    written = "it counts guesses that the run wrote to a file, which are not in the samples"
    return {} if task_settings.get("guesses") is None else {"guesses_written": written}


SUFFIX_EXTRACTION = register_scoring(
    Scoring(
        task_names.SUFFIXES,
        lambda task_settings, copies: [*_rows_for(task_settings), LEFT_OUT],
        _suffix_values,
        lambda: NULLS,
        unscored=_unscored,
        goal="suffixes",
        classes=OF_GOAL["suffixes"],
    )
)

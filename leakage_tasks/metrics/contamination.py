"""Metrics of the task ``contamination_test``: preference for the canonical order, and for items over twins."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from leakage_tasks.attacks.contamination.finding import ContaminationFinding, contamination_finding_from_json
from leakage_tasks.core import task_names
from leakage_tasks.metrics.contamination_order import Row, order_rows
from leakage_tasks.metrics.contamination_twins import twin_rows
from leakage_tasks.metrics.scoring import Scoring, TaskSettings, Values, register_scoring
from leakage_tasks.metrics.tiers import Copies

NULLS = ("order_preferred", "order_p")
"""Rows of an unanswered task."""


@lru_cache(maxsize=4)
def contamination_rows(twins: bool, near: bool = False) -> tuple[Row, ...]:
    """Return the task's metrics.

    Args:
        twins: True if items have twins.
        near: True if the run has an edit distance up to which second halves are nearly written.
    """
    return (*order_rows(), *(twin_rows(near) if twins else []))


def _rows(task_settings: TaskSettings, copies: Copies | None = None) -> Sequence[Row]:
    return contamination_rows(task_settings.get("twins") is not None, bool(task_settings.get("near")))


def _values(finding: ContaminationFinding, column: str, task_settings: TaskSettings, copies: Copies) -> Values:
    return {row.name: row.value(finding) for row in _rows(task_settings)}


CONTAMINATION_TEST = register_scoring(
    Scoring(
        task_names.CONTAMINATION,
        _rows,
        _values,
        partial(list, NULLS),
        contamination_finding_from_json,
        classes=("membership inference",),
    )
)

"""Scoring of the task ``membership``: its metrics from saved answers."""

from __future__ import annotations

from leakage_tasks.attacks.membership.finding import MembershipFinding, membership_finding_from_json
from leakage_tasks.metrics.membership import NULLS, membership_metrics
from leakage_tasks.metrics.scoring import Scoring, TaskSettings, Values, register_scoring
from leakage_tasks.metrics.tiers import Copies


def _values(finding: MembershipFinding, column: str, task_settings: TaskSettings, copies: Copies) -> Values:
    """Return the values of one text."""
    return {row.name: row.value(finding) for row in membership_metrics() if row.applies(finding)}


MEMBERSHIP = register_scoring(
    Scoring(
        "membership",
        lambda task_settings, copies: membership_metrics(),
        _values,
        lambda: list(NULLS),
        membership_finding_from_json,
        classes=("membership inference",),
    )
)

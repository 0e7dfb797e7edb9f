"""Auditing figures of a run, from the samples beside its results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakage_tasks.report.reading.format import number
from leakage_tasks.report.reading.run import Run

if TYPE_CHECKING:
    from leakage_tasks.metrics.audit import AuditFigure


def audit_of(run: Run, delta: float) -> list[AuditFigure]:
    """The auditing figures that the samples beside the results give; none without samples. Raises ResultsError."""
    from leakage_tasks.metrics.audit import audit
    from leakage_tasks.metrics.scoring import CANARY_EXPOSURE
    from leakage_tasks.report.reading.samples import read_samples

    result = run.tasks.get(CANARY_EXPOSURE.task)
    if result is None or not result.is_leakage or result.logged is None:
        return []
    findings = read_samples(result.logged).findings()
    return audit(findings, delta) if any(found.planted for found in findings) else []


def audit_words(figure: AuditFigure) -> str:
    """An auditing figure with its interval and what it rests on, or why there is none."""
    if figure.refused is not None:
        return f"none: {figure.refused}"
    interval = "" if figure.low is None else f" [{number(figure.low)}, {number(figure.high)}]"
    if figure.lower_bound:
        best = f"; a perfect attack could have shown {number(figure.best)}"
        return f"{number(figure.value)} or more ({figure.basis}{best})"
    return f"{number(figure.value)}{interval} ({figure.basis}; {number(figure.chance)} without a leak)"

"""Auditing figures in a model card."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from leakage_tasks.report.card.words import bullets
from leakage_tasks.report.reading.format import NOTHING, number
from leakage_tasks.report.reading.markdown import escaped, table

if TYPE_CHECKING:
    from leakage_tasks.metrics.audit import AuditFigure


def audit_parts(audited: Sequence[AuditFigure], delta: float) -> Iterator[str]:
    """What a card says of them, in blocks of Markdown; nothing without any."""
    if not audited:
        return
    yield f"### Audit with controls, at δ = {delta:g}"
    there = [each for each in audited if each.refused is None]
    if there:
        yield table(
            ["Figure", "Value", "95 % interval", "Rests on", "Without a leak", "Perfect attack"],
            [
                [
                    escaped(each.title),
                    f"{'≥ ' if each.lower_bound else ''}{number(each.value)}",
                    NOTHING if each.low is None else f"[{number(each.low)}, {number(each.high)}]",
                    escaped(each.basis),
                    number(each.chance),
                    number(each.best),
                ]
                for each in there
            ],
        )
    yield bullets(
        f"{escaped(each.title)}: {escaped(each.words if each.refused is None else f'none: {each.refused}')}."
        for each in sorted(audited, key=lambda each: each.refused is not None)
    )

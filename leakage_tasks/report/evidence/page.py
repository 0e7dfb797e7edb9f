"""The page of an evidence report: a function of its record, which the page holds as data."""

from __future__ import annotations

import re
from collections.abc import Sequence

from leakage_tasks.report.evidence.protocol import SELFTEST
from leakage_tasks.report.evidence.questions import NOT_TESTED
from leakage_tasks.report.evidence.record import Evidence, Row, canonical, digest_of
from leakage_tasks.report.load.format import ARROWS, audit_words, limited, number
from leakage_tasks.report.page.document import render

STYLES = ("base.css", "table.css", "plots.css", "details.css", "print.css", "evidence.css")
_RECORD = re.compile(r'<script type="application/json" id="record">(.*?)</script>', re.DOTALL)
_DIGEST = re.compile(r'<code id="digest">([0-9a-f]{64})</code>')


def page(evidence: Evidence) -> str:
    """Return the report as one HTML document without scripts and external resources; equal records give equal texts."""
    record = canonical(evidence)
    return render(
        "evidence.html",
        STYLES,
        evidence=evidence,
        record=record,
        digest=digest_of(record),
        primary=_by_task([row for row in evidence.results if row.primary]),
        others=_by_task([row for row in evidence.results if not row.primary]),
        sized=any("|R|" in row.chance for row in evidence.results),
        failed=[check for check in evidence.checks if check.held is False],
        selftest=SELFTEST,
        not_tested=NOT_TESTED,
        arrows=ARROWS,
        number=number,
        counted=_counted,
        audit_words=audit_words,
    )


def _counted(value: float, limit: float | None = None) -> str:
    if value and float(value).is_integer():
        return f"{value:,.0f}"
    return number(value) if limit is None else limited(value, limit)


def _by_task(rows: Sequence[Row]) -> dict[str, list[Row]]:
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row.task, []).append(row)
    return grouped


def record_in(text: str) -> str | None:
    """Return the record that a page holds, or None for a page without exactly one record."""
    records = _RECORD.findall(text)
    return records[0] if len(records) == 1 else None


def digest_in(text: str) -> str | None:
    """Return the digest that a page prints, or None for a page without exactly one digest."""
    digests = _DIGEST.findall(text)
    return digests[0] if len(digests) == 1 else None

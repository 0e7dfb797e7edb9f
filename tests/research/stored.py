"""Stored results made up for tests, and the verdicts of a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leakage_tasks.core.version import __version__
from leakage_tasks.research.framework.report import Report
from leakage_tasks.research.framework.report_reading import report_from_json
from leakage_tasks.research.framework.stored_results import StoredResult


def stored(
    *, rows: Sequence[dict[str, Any]] = (), claims: Sequence[dict[str, Any]] = (), **changed: Any
) -> StoredResult:
    """A result of the study coins/table-1 at small, from three seeds, with changes."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    usual: dict[str, Any] = {
        "study": "coins/table-1",
        "scale": "small",
        "command": "leakage study run coins/table-1 --scale small --seed 0",
        "seconds": 125.0,
        "seeds": 3,
        "versions": {"lm-eval-leakage": __version__},
        "code": [None],
        "devices": ["CPU"],
    }
    report = {"columns": columns, "rows": list(rows), "claims": list(claims), "differences": []}
    return StoredResult(report=report_from_json(report), **usual | changed)


def claim(words: str, holds: bool | None, p: float | None = None, evidence: str = "as seen") -> dict[str, Any]:
    """A claim as it is stored."""
    return {"words": words, "holds": holds, "evidence": evidence, "p": p}


def verdicts(report: Report) -> dict[str, bool | None]:
    """The outcome of each claim of a report, by its words."""
    return {claim.words: claim.holds for claim in report.claims}

"""The result of a check, as a row of a table and as a JSON record."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["held", "did not hold", "does not apply"]
HELD: Verdict = "held"
BROKEN: Verdict = "did not hold"
NOT_APPLICABLE: Verdict = "does not apply"
WIDTH = 110


@dataclass(frozen=True)
class SelfTestRow:
    """The result of a check: its name and verdict, a description, and the figures behind it."""

    check: str
    verdict: Verdict
    words: str
    figures: dict[str, Any] = field(default_factory=dict)


def judged(check: str, held: bool, words: str, figures: dict[str, Any], remedy: str) -> SelfTestRow:
    """Return the row of a check that applies; a failed check ends with ``remedy``."""
    return SelfTestRow(check, HELD if held else BROKEN, words if held else f"{words}: {remedy}", figures)


def skipped(check: str, why: str) -> SelfTestRow:
    """Return the row of a check that does not apply."""
    return SelfTestRow(check, NOT_APPLICABLE, why)


def table(rows: Sequence[SelfTestRow]) -> str:
    """Return a table with one row per check: name, verdict and wrapped description."""
    names = max(len(row.check) for row in rows)
    verdicts = max(len(row.verdict) for row in rows)
    indent = names + verdicts + 4
    lines = []
    for row in rows:
        head = f"{row.check:<{names}}  {row.verdict:<{verdicts}}  "
        lines += textwrap.wrap(row.words, WIDTH, initial_indent=head, subsequent_indent=" " * indent)
    return "\n".join(lines)

"""The result of a check, as a row of a table for people and as a record for programs."""

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
    """A check with its name, its verdict, the result as a text, and the figures in it."""

    check: str
    verdict: Verdict
    words: str
    figures: dict[str, Any] = field(default_factory=dict)


def judged(check: str, held: bool, words: str, figures: dict[str, Any], remedy: str) -> SelfTestRow:
    """Return the row of a check that applies. If it did not hold, ``remedy`` is added to its text."""
    return SelfTestRow(check, HELD if held else BROKEN, words if held else f"{words}: {remedy}", figures)


def skipped(check: str, why: str) -> SelfTestRow:
    """Return the row of a check that does not apply."""
    return SelfTestRow(check, NOT_APPLICABLE, why)


def table(rows: Sequence[SelfTestRow]) -> str:
    """Format a line per check: name, verdict and text, wrapped under the text's first column."""
    names = max(len(row.check) for row in rows)
    verdicts = max(len(row.verdict) for row in rows)
    indent = names + verdicts + 4
    lines = []
    for row in rows:
        head = f"{row.check:<{names}}  {row.verdict:<{verdicts}}  "
        lines += textwrap.wrap(row.words, WIDTH, initial_indent=head, subsequent_indent=" " * indent)
    return "\n".join(lines)

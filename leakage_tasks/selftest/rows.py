"""What a check found, as a row of a table for people and as a record for programs."""

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
    """One check: its name, whether it held, what was found in words, and the same as figures."""

    check: str
    verdict: Verdict
    words: str
    figures: dict[str, Any] = field(default_factory=dict)


def judged(check: str, held: bool, words: str, figures: dict[str, Any], remedy: str) -> SelfTestRow:
    """The row of a check that applies; one that did not hold says what to do about it."""
    return SelfTestRow(check, HELD if held else BROKEN, words if held else f"{words}: {remedy}", figures)


def skipped(check: str, why: str) -> SelfTestRow:
    """The row of a check that does not apply."""
    return SelfTestRow(check, NOT_APPLICABLE, why)


def table(rows: Sequence[SelfTestRow]) -> str:
    """One row a check: name, verdict and words, the last wrapped under themselves."""
    names = max(len(row.check) for row in rows)
    verdicts = max(len(row.verdict) for row in rows)
    indent = names + verdicts + 4
    lines = []
    for row in rows:
        head = f"{row.check:<{names}}  {row.verdict:<{verdicts}}  "
        lines += textwrap.wrap(row.words, WIDTH, initial_indent=head, subsequent_indent=" " * indent)
    return "\n".join(lines)

"""Figures and flags in few characters, the same in every report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from leakage_tasks.metrics.verdict import Verdict
from leakage_tasks.report.load.figures import Figure, Flag

if TYPE_CHECKING:
    from leakage_tasks.metrics.audit import AuditFigure

NOTHING = "–"
ARROWS = {"lower": "↓", "higher": "↑", None: ""}
"""Which way is better, for the defender where it leaks, for the user where it is useful."""


def number(value: float | None) -> str:
    """A figure with about three digits that matter."""
    if value is None:
        return NOTHING
    if value == 0 or 0.0095 <= abs(value) < 10:
        return f"{value:.3f}" if abs(value) < 1 and value else f"{value:.2f}"
    if abs(value) < 0.0095:
        return f"{value:.1e}"
    return f"{value:.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def percent(share: float) -> str:
    """A share with two digits that matter, three from 10 %."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.3g} %"


def interval(found: Figure | AuditFigure) -> str:
    """``[low, high]``; nothing without one."""
    if found.low is None or found.high is None:
        return ""
    return f"[{number(found.low)}, {number(found.high)}]"


def beside_lines(found: Figure) -> list[str]:
    """What a figure may not be shown without, besides its interval: controls, count, copies that were learnt from."""
    control = [] if found.control is None else [f"controls {number(found.control)}"]
    count = [] if found.count is None else [f"n = {found.count:,}"]
    return [*control, *count, *([] if found.learnt is None else [learnt_words(*found.learnt)])]


def learnt_words(learnt: int, copies: int) -> str:
    """Of how many copies a secret was in the loss of training, in words."""
    return f"learnt from {learnt:,} of {copies:,} copies"


def flag_words(flags: Iterable[Flag]) -> list[str]:
    """Flags in words, one for several tasks of which the same is true."""
    said: dict[tuple[str, str], list[str]] = {}
    for flag in flags:
        said.setdefault((flag.words, measure(flag)), []).append(flag.task)
    return [f"{', '.join(tasks)}: {words}{measured}" for (words, measured), tasks in said.items()]


def verdict_words(verdicts: Mapping[str, Verdict]) -> list[str]:
    """Verdicts by task in words, one line each."""
    return [f"{task}: {verdict.words}" for task, verdict in sorted(verdicts.items())]


def measure(flag: Flag) -> str:
    """The row that a flag goes by and its value, in brackets; nothing for a flag of the whole task."""
    if flag.value is None:
        return ""
    name = "p" if flag.fault else flag.row
    counted = not flag.fault and flag.value.is_integer()
    return f" ({name} = {f'{flag.value:,.0f}' if counted else number(flag.value)})"

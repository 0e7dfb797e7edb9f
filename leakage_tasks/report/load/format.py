"""Short texts for values and flags, shared by all reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from leakage_tasks.metrics.conclusion import Verdict
from leakage_tasks.report.load.figures import Figure, Flag

if TYPE_CHECKING:
    from leakage_tasks.metrics.audit_figure import AuditFigure

NOTHING = "–"
NEVER = "controls"
"""Name of the group of canaries that were never planted."""
ARROWS = {"lower": "↓", "higher": "↑", None: ""}
"""The better direction: for the defender in leakage tasks, for the user in usefulness tasks."""


def number(value: float | None) -> str:
    """Format a value with about three significant digits."""
    if value is None:
        return NOTHING
    if value == 0 or 0.0095 <= abs(value) < 10:
        return f"{value:.3f}" if abs(value) < 1 and value else f"{value:.2f}"
    if abs(value) < 0.0095:
        return f"{value:.1e}"
    return f"{value:.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def limited(value: float, limit: float) -> str:
    """Format a value as :func:`number`, or with more digits if rounding would move a value below ``limit`` to it."""
    text, digits = number(value), 3
    while (float(text.replace(",", "")) < limit) != (value < limit):
        text, digits = f"{value:.{digits}g}", digits + 1
    return text


def interval(figure: Figure | AuditFigure, shown: Callable[[float | None], str] = number) -> str:
    """Format an interval as ``[low, high]`` with the ends as ``shown``, or as an empty text if there is none."""
    if figure.low is None or figure.high is None:
        return ""
    return f"[{shown(figure.low)}, {shown(figure.high)}]"


def with_interval(figure: Figure | AuditFigure, shown: Callable[[float | None], str] = number) -> str:
    """Format a value and its interval, if there is one."""
    return f"{shown(figure.value)} {interval(figure, shown)}".strip()


def audit_words(figure: AuditFigure, shown: Callable[[float | None], str] = number) -> str:
    """Return an auditing metric with its interval and sample size, or the reason why it has no value."""
    if figure.refused is not None:
        return f"no value: {figure.refused}"
    if figure.lower_bound:
        return f"{shown(figure.value)} or more ({figure.basis}; a perfect attack could have shown {shown(figure.best)})"
    return f"{with_interval(figure, shown)} ({figure.basis}; {shown(figure.chance)} without a leak)"


def context_lines(figure: Figure) -> list[str]:
    """List the context of a value without its interval: controls, count, and copies learnt from."""
    control = [] if figure.control is None else [f"controls {number(figure.control)}"]
    count = [] if figure.count is None else [f"n = {figure.count:,}"]
    return [*control, *count, *([] if figure.learnt is None else [learnt_words(*figure.learnt)])]


def learnt_words(learnt: int, copies: int) -> str:
    """State how many copies had their secret in the training loss."""
    return f"learnt from {learnt:,} of {copies:,} copies"


def attack_words(attacks: Iterable[tuple[str, str]]) -> list[str]:
    """Return each attack with the access to the model that it needs, if it is known."""
    return [f"{attack} ({access})" if access else attack for attack, access in attacks]


def flag_words(flags: Iterable[Flag]) -> list[str]:
    """Return the flags as texts; tasks with equal flags share one text."""
    tasks_by_flag: dict[tuple[str, str], list[str]] = {}
    for flag in flags:
        tasks_by_flag.setdefault((flag.words, measure(flag)), []).append(flag.task)
    return [f"{', '.join(tasks)}: {words}{measured}" for (words, measured), tasks in tasks_by_flag.items()]


def verdict_words(verdicts: Mapping[str, Verdict]) -> list[str]:
    """Return one line per task with its verdict."""
    return [f"{task}: {verdict.words}" for task, verdict in sorted(verdicts.items())]


def measure(flag: Flag) -> str:
    """Return the metric and value behind a flag in brackets, or an empty text for a flag of the whole task."""
    if flag.value is None:
        return ""
    p_value = "p" in flag.row.split("_")
    name = "p" if p_value else flag.row
    counted = not p_value and flag.value.is_integer()
    shown = number(flag.value) if flag.below is None else limited(flag.value, flag.below)
    return f" ({name} = {f'{flag.value:,.0f}' if counted else shown})"

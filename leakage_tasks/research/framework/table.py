"""A study's report as plain text and as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from leakage_tasks.research.framework.report import Cell, Claim, Measured, Published, Report

MISSING = "not in the source"
WIDTH = 110
_VERDICTS = {True: "holds", False: "does not hold", None: "cannot be told"}


def plain_text(report: Report) -> str:
    """The table with aligned columns, then claims with their evidence, then differences from the paper."""
    rows = _cells(report)
    widths = [max(map(len, column)) for column in zip(report.columns, *rows, strict=True)]
    left = [all(_is_words(row.get(name)) for row in report.rows) for name in report.columns]
    lines = [_aligned(report.columns, widths, left), "  ".join("-" * width for width in widths)]
    lines += [_aligned(row, widths, left) for row in rows]
    for title, items in _sections(report):
        lines += ["", title]
        lines += [textwrap.fill(item, WIDTH, initial_indent="  * ", subsequent_indent="    ") for item in items]
    return "\n".join(lines) + "\n"


def markdown(report: Report, title: str) -> str:
    """The same as a Markdown section under ``title``."""
    rows = [report.columns, ["---"] * len(report.columns), *_cells(report)]
    lines = [f"## {title}", "", *("| " + " | ".join(map(_escaped, row)) + " |" for row in rows)]
    for heading, items in _sections(report):
        lines += ["", f"**{heading}**", "", *(f"- {_escaped(item)}" for item in items)]
    return "\n".join(lines) + "\n"


def show(cell: Cell) -> str:
    """One cell for people: ``0.9 [0.555, 0.997] n=10`` for a measured one, or ``0.9 ± 0.05 [0.87, 0.93] n=10``."""
    if cell is None:
        return ""
    if isinstance(cell, Published):
        return MISSING if cell.value is None else _number(cell.value)
    if isinstance(cell, Measured):
        interval = "" if cell.low is None or cell.high is None else f" [{_number(cell.low)}, {_number(cell.high)}]"
        spread = "" if cell.sd is None else f" ± {_number(cell.sd)}"
        return f"{_number(cell.value)}{spread}{interval} n={cell.count}"
    return _number(cell)


def verdict(claim: Claim) -> str:
    """``holds``, ``does not hold`` or ``cannot be told``."""
    return _VERDICTS[claim.holds]


def _sections(report: Report) -> list[tuple[str, list[str]]]:
    claims = [f"{verdict(claim)}: {claim.words} ({claim.evidence})" for claim in report.claims]
    sections = [("Claims", claims), ("How this differs from the paper", list(report.differences))]
    return [(title, items) for title, items in sections if items]


def _cells(report: Report) -> list[list[str]]:
    return [[show(row.get(name)) for name in report.columns] for row in report.rows]


def _number(value: float | str) -> str:
    if isinstance(value, str | bool | int):
        return f"{value:,}" if type(value) is int else str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _is_words(cell: Cell) -> bool:
    return cell is None or isinstance(cell, str)


def _aligned(cells: Sequence[str], widths: Sequence[int], left: Sequence[bool]) -> str:
    parts = (
        cell.ljust(width) if to_left else cell.rjust(width)
        for cell, width, to_left in zip(cells, widths, left, strict=True)
    )
    return "  ".join(parts).rstrip()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")

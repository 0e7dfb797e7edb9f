"""The report of a study: a table of published and measured values, claims, and differences from the paper."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from leakage_tasks.core.text_table import text_table

MISSING = "not in the source"
WIDTH = 110
_VERDICTS = {True: "holds", False: "does not hold", None: "inconclusive"}


@dataclass(frozen=True)
class Published:
    """A published value, or None if the paper's text does not give it."""

    value: float | str | None


@dataclass(frozen=True)
class Measured:
    """A value measured in ``count`` runs with its 95 % interval, whose ends are None if it cannot be computed.

    ``sd`` is the standard deviation over runs, if the table shows it.
    """

    value: float
    low: float | None
    high: float | None
    count: int
    sd: float | None = None

    @staticmethod
    def rate(hits: int, count: int) -> Measured:
        """Return a share of ``count`` runs with its exact Clopper-Pearson interval. Raises ValueError for no runs."""
        from leakage_tasks.stats.intervals import clopper_pearson

        low, high = clopper_pearson(hits, count)
        return Measured(hits / count, low, high, count)

    @staticmethod
    def mean(values: Sequence[float], most: float = math.inf) -> Measured:
        """Return a mean with Student's interval, on a log scale for non-negative values such as ranks.

        A single value has no interval. Intervals are cut at ``most``, the largest possible value. Raises ValueError for
        no values.
        """
        import numpy as np
        from scipy import stats

        from leakage_tasks.stats.intervals import LEVEL, positive_mean

        if not len(values):
            raise ValueError("no values to take the mean of")
        data = np.asarray(values, dtype=np.float64)
        mean, count = float(data.mean()), len(data)
        if count == 1:
            return Measured(mean, None, None, 1)
        if data.min() >= 0 and mean > 0:
            low, high = positive_mean(data)
            return Measured(mean, low, min(high, most), count)
        reach = float(stats.t.ppf((1 + LEVEL) / 2, count - 1) * data.std(ddof=1) / math.sqrt(count))
        return Measured(mean, mean - reach, min(mean + reach, most), count)

    @staticmethod
    def over_seeds(values: Sequence[float], most: float = math.inf) -> Measured:
        """Return the mean as :meth:`mean` does, with the standard deviation (None for a single value)."""
        import numpy as np

        return replace(Measured.mean(values, most), sd=float(np.std(values, ddof=1)) if len(values) > 1 else None)


Cell = str | int | float | None | Published | Measured
"""One cell of a table; None is empty."""
TableRow = dict[str, Cell]
"""The cells of a row by column name."""


def point_of(cell: Any) -> tuple[float, float, float] | None:
    """Return a measured cell's value and interval ends for a plot, and None for other cells.

    An end that is unknown is replaced by the value.
    """
    if not isinstance(cell, Measured):
        return None
    low, high = (cell.value if end is None else end for end in (cell.low, cell.high))
    return cell.value, low, high


@dataclass(frozen=True)
class Claim:
    """A claim of the paper or of this project, its verdict (None: inconclusive), and the evidence.

    ``p`` is the p-value of the test behind the verdict before correction, None without a test. ``takes`` is the
    requirement of a verdict if more runs are not enough.
    """

    words: str
    holds: bool | None
    evidence: str
    p: float | None = None
    takes: str = ""


@dataclass(frozen=True)
class Report:
    """The outcome of a study.

    Missing cells of ``rows`` are empty. Each of the ``differences`` is a sentence on how the set-up differs from the
    paper's. Raises ValueError if a row has a column that is not in ``columns``.
    """

    columns: Sequence[str]
    rows: Sequence[TableRow]
    claims: Sequence[Claim] = ()
    differences: Sequence[str] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if unknown := [name for name in row if name not in self.columns]:
                raise ValueError(f"column {unknown[0]!r} of a row is not among {', '.join(self.columns)}")

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values: a measured cell is an object, a published cell ``{"published": value}``."""
        rows = [{name: _cell_json(row.get(name)) for name in self.columns} for row in self.rows]
        claims = [asdict(claim) for claim in self.claims]
        return {"columns": list(self.columns), "rows": rows, "claims": claims, "differences": list(self.differences)}


def _cell_json(cell: Cell) -> Any:
    if isinstance(cell, Published):
        return {"published": cell.value}
    return asdict(cell) if isinstance(cell, Measured) else cell


def plain_text(report: Report) -> str:
    """Return the table with aligned columns, then claims with evidence, then differences from the paper."""
    rows = _cells(report)
    widths = [max(map(len, column)) for column in zip(report.columns, *rows, strict=True)]
    right = [not all(isinstance(row.get(name), str | None) for row in report.rows) for name in report.columns]
    lines = [text_table([report.columns, ["-" * width for width in widths], *rows], right)]
    for title, items in _sections(report):
        lines += ["", title]
        lines += [textwrap.fill(item, WIDTH, initial_indent="  * ", subsequent_indent="    ") for item in items]
    return "\n".join(lines) + "\n"


def markdown(report: Report, title: str) -> str:
    """Return the report as a Markdown section under ``title``."""
    rows = [report.columns, ["---"] * len(report.columns), *_cells(report)]
    lines = [f"## {title}", "", *("| " + " | ".join(map(escaped, row)) + " |" for row in rows)]
    for heading, items in _sections(report):
        lines += ["", f"**{heading}**", "", *(f"- {escaped(item)}" for item in items)]
    return "\n".join(lines) + "\n"


def show(cell: Cell) -> str:
    """Format a cell, for example ``0.9 [0.555, 0.997] n=10`` or ``0.9 ± 0.05 [0.87, 0.93] n=10``.

    If all runs have an equal value, Student's interval has no width: ``0.9, equal in all n=3``.
    """
    if cell is None:
        return ""
    if isinstance(cell, Published):
        return MISSING if cell.value is None else _number(cell.value)
    if isinstance(cell, Measured):
        if cell.low is not None and cell.high is not None and math.isclose(cell.low, cell.high):
            return f"{_number(cell.value)}, equal in all n={cell.count}"
        interval = "" if cell.low is None or cell.high is None else f" [{_number(cell.low)}, {_number(cell.high)}]"
        spread = "" if cell.sd is None else f" ± {_number(cell.sd)}"
        return f"{_number(cell.value)}{spread}{interval} n={cell.count}"
    return _number(cell)


def _sections(report: Report) -> list[tuple[str, list[str]]]:
    claims = [f"{_VERDICTS[claim.holds]}: {claim.words} ({claim.evidence})" for claim in report.claims]
    sections = [("Claims", claims), ("How this differs from the paper", list(report.differences))]
    return [(title, items) for title, items in sections if items]


def _cells(report: Report) -> list[list[str]]:
    return [[show(row.get(name)) for name in report.columns] for row in report.rows]


def _number(value: float | str) -> str:
    if isinstance(value, str | bool | int):
        return f"{value:,}" if type(value) is int else str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def escaped(text: str) -> str:
    """Return text that is safe in a cell of a Markdown table."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")

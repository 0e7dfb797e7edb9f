"""The page put together: markup, style, script and data in one file that loads nothing else."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.version import __version__
from leakage_tasks.report.board.board import Board, Column, Entry
from leakage_tasks.report.board.outputs import register_board
from leakage_tasks.report.load.figures import Figure
from leakage_tasks.report.load.format import ARROWS, context_lines, flag_words, interval, number, verdict_words
from leakage_tasks.report.page.runs import tell_runs
from leakage_tasks.report.page.scatter import scatter

if TYPE_CHECKING:
    from markupsafe import Markup

STYLES = ("base.css", "table.css", "plots.css", "details.css", "print.css")
SCRIPTS = ("dom.js", "table.js", "about.js", "plot.js", "scatter.js", "spreads.js", "guesses.js", "run.js", "main.js")
"""In the order in which they stand in the page."""
WIDE, ROOM = 56.0, 4.0
"""Width of the little picture of an interval, and what is left free at its ends, in pixels."""
_BETTER = {"lower": "lower is better", "higher": "higher is better", None: "no better side"}
_UNSAFE = {each: f"\\u{each:04x}" for each in (ord("<"), ord(">"), ord("&"), 0x2028, 0x2029)}


@register_board("html")
def page(board: Board, *, reveal: bool = False) -> str:
    """The board as one HTML document; the same board is the same text.

    ``reveal`` shows natural secrets and training text, as far as the runs logged them. Raises ResultsError for samples
    that cannot be read.
    """
    script = f'"use strict";\n(() => {{\n{_read_parts(SCRIPTS)}}})();\n'
    runs = tell_runs(board, reveal=reveal)
    shared: dict[str, Any] = {
        each.__name__: each for each in (context_lines, flag_words, interval, number, verdict_words)
    }
    titles = {column.key: column.title for column in board.columns}
    return render(
        "page.html",
        STYLES,
        script,
        board=board,
        scales=[_scale(board, column) for column in board.columns],
        ranked_by=[titles[key] for key in board.ranked_by],
        kinds=sorted({entry.run.model for entry in board.entries}),
        runs=runs,
        scatter=as_json(scatter(board)),
        details=[as_json(run) for run in runs],
        reveal=reveal,
        **shared,
        badges=_badges,
        below_title=_below_title,
        explained=_explained,
        picture=_picture,
    )


def render(template: str, styles: tuple[str, ...], script: str = "", loads: Sequence[str] = (), **values: Any) -> str:
    """A template of the page filled in: what a browser may do is apply our style, run ``script`` and ``loads``."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("leakage_tasks.report.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = _read_parts(styles)
    scripts = [f"script-src '{_digest(script)}'"] if script else []
    allowed = [*scripts, f"style-src '{_digest(style)}'", *loads]
    text = environment.get_template(template).render(
        policy="; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"]),
        style=Markup(style),
        script=Markup(script),
        version=__version__,
        **values,
    )
    # Names from results may hold half a surrogate pair, which no UTF-8 file can.
    return text.encode("utf-8", "replace").decode("utf-8")


def as_json(data: Any) -> Markup:
    """Data as JSON that cannot end the script element it stands in."""
    from markupsafe import Markup

    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_UNSAFE))


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@functools.cache
def _read_parts(names: tuple[str, ...]) -> str:
    folder = resources.files("leakage_tasks.report.page")
    kind = "style" if names[0].endswith(".css") else "script"
    return "".join((folder / kind / name).read_text(encoding="utf-8") for name in names)


def _explained(board: Board, column: Column) -> list[tuple[str, str]]:
    """What explains a column: pairs of a word and its text."""
    whom = " for the defender" if column.leakage and column.direction else ""
    kinds = dict.fromkeys(figure.kind for figure in _figures(board, column) if figure.kind)
    of = f", filter {column.filter}" if column.key.endswith(f"/{column.filter}") else ""
    return [
        ("Unit", column.unit or "number"),
        ("Direction", f"{_BETTER[column.direction]}{whom}"),
        *([("Without a leak", column.chance)] if column.chance else []),
        *([("95 % interval", ", ".join(kinds))] if kinds else []),
        ("In the results", f"{column.name} of {column.task}{of}"),
    ]


def _below_title(column: Column) -> str:
    """Unit and direction, as they stand below a column's title."""
    if column.direction is None:
        return column.unit
    unit = f"{column.unit}, " if column.unit else ""
    return f"{unit}{_BETTER[column.direction]}\N{NO-BREAK SPACE}{ARROWS[column.direction]}"


def _badges(entry: Entry) -> Sequence[tuple[str, bool]]:
    """A run's flags in few words, each with whether it is a fault."""
    return list(dict.fromkeys((flag.words.partition(":")[0], flag.fault) for flag in entry.flags))


def _scale(board: Board, column: Column) -> tuple[float, float]:
    """From the least to the greatest end in a column, and from 0 where figures are not below it; shares end at 1."""
    ends = [
        end for figure in _figures(board, column) for end in (figure.value, figure.low, figure.high, figure.control)
    ]
    known = [0.0, *(end for end in ends if end is not None)]
    most = max(known)
    return min(known), 1.0 if column.unit in ("share", "probability") and most <= 1 else most


def _picture(found: Figure, scale: tuple[float, float]) -> dict[str, float | None] | None:
    """Where an interval, its value and its controls' value lie, in pixels; None without an interval."""
    low, high = scale
    if found.value is None or found.low is None or found.high is None or high <= low:
        return None
    ends = {"value": found.value, "low": found.low, "high": found.high, "control": found.control}
    room = WIDE - 2 * ROOM
    return {
        name: None if end is None else round(ROOM + room * (end - low) / (high - low), 1) for name, end in ends.items()
    }


def _figures(board: Board, column: Column) -> list[Figure]:
    return [entry.figure(column) for entry in board.entries]

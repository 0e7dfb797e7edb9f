"""Assembly of the page: markup, style, script and figures in one file without external resources."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.version import __version__
from leakage_tasks.report.board.board import Board, Column, Entry
from leakage_tasks.report.board.outputs import register_board
from leakage_tasks.report.load.figures import Figure
from leakage_tasks.report.load.format import ARROWS, context_lines, flag_words, interval, number, verdict_words
from leakage_tasks.report.page.guesses import joined, marked
from leakage_tasks.report.page.runs import PLOTS, describe_runs
from leakage_tasks.report.page.spreads import DOTS
from leakage_tasks.report.page.views import describe_views, missing_value

if TYPE_CHECKING:
    from jinja2 import Environment

STYLES = ("base.css", "table.css", "plots.css", "details.css", "print.css")
SCRIPTS = ("dom.js", "table.js", "about.js", "details.js", "main.js")
"""Scripts in the order of the page."""
WIDE, ROOM = 56.0, 4.0
"""Width of the small drawing of an interval, and the margin at its ends, in pixels."""
_BETTER = {"lower": "lower is better", "higher": "higher is better", None: "no better side"}


@register_board("html")
def page(board: Board, *, reveal: bool = False) -> str:
    """Return the board as one HTML document; equal boards give equal texts.

    ``reveal`` shows natural secrets and training text, as far as the runs logged them. Raises ResultsError for samples
    that cannot be read.
    """
    script = f'"use strict";\n(() => {{\n{_read_parts(SCRIPTS)}}})();\n'
    views, views_left_out = describe_views(board)
    shared: dict[str, Any] = {
        function.__name__: function
        for function in (context_lines, flag_words, interval, joined, marked, missing_value, number, verdict_words)
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
        runs=describe_runs(board, reveal=reveal),
        views=views,
        views_left_out=views_left_out,
        most_dots=DOTS,
        most_plots=PLOTS,
        reveal=reveal,
        **shared,
        badges=_badges,
        below_title=_below_title,
        explained=_explained,
        picture=_picture,
    )


def render(template: str, styles: tuple[str, ...], script: str = "", **values: Any) -> str:
    """Fill in a template as one document, with a policy that forbids everything but its parts to the browser.

    Args:
        template: The name of the template's file.
        styles: The names of the style sheets' files.
        script: The only script that the browser may run.
        **values: The values of the template's variables.

    Returns:
        The document's text, which can be encoded as UTF-8.
    """
    from markupsafe import Markup

    style = _read_parts(styles)
    scripts = [f"script-src '{_digest(script)}'"] if script else []
    allowed = [*scripts, f"style-src '{_digest(style)}'", "img-src data:"]
    document = _templates().get_template(template)
    text = document.render(
        policy="; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"]),
        style=Markup(style),
        script=Markup(script),
        version=__version__,
        **values,
    )
    # Names from results may contain unpaired surrogates, which UTF-8 cannot encode.
    return text.encode("utf-8", "replace").decode("utf-8")


@functools.cache
def _templates() -> Environment:
    """Return the templates, which are compiled once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("leakage_tasks.report.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@functools.cache
def _read_parts(names: tuple[str, ...]) -> str:
    folder = resources.files("leakage_tasks.report.page")
    kind = "style" if names[0].endswith(".css") else "script"
    return "".join((folder / kind / name).read_text(encoding="utf-8") for name in names)


def _explained(board: Board, column: Column) -> list[tuple[str, str]]:
    whom = " for the defender" if column.leakage and column.direction else ""
    kinds = dict.fromkeys(figure.kind for figure in _figures(board, column) if figure.kind)
    filtered = f", filter {column.filter}" if column.key.endswith(f"/{column.filter}") else ""
    return [
        ("Unit", column.unit or "number"),
        ("Direction", f"{_BETTER[column.direction]}{whom}"),
        *([("Without a leak", column.chance)] if column.chance else []),
        *([("95 % interval", ", ".join(kinds))] if kinds else []),
        ("In the results", f"{column.name} of {column.task}{filtered}"),
    ]


def _below_title(column: Column) -> str:
    if column.direction is None:
        return column.unit
    unit = f"{column.unit}, " if column.unit else ""
    return f"{unit}{_BETTER[column.direction]}\N{NO-BREAK SPACE}{ARROWS[column.direction]}"


def _badges(entry: Entry) -> Sequence[tuple[str, bool]]:
    return list(dict.fromkeys((flag.words.partition(":")[0], flag.fault) for flag in entry.flags))


def _scale(board: Board, column: Column) -> tuple[float, float]:
    """Return the range of a column, extended to 0; a column of shares ends at 1."""
    ends = [
        end for figure in _figures(board, column) for end in (figure.value, figure.low, figure.high, figure.control)
    ]
    known = [0.0, *(end for end in ends if end is not None)]
    most = max(known)
    return min(known), 1.0 if column.unit in ("share", "probability") and most <= 1 else most


def _picture(figure: Figure, scale: tuple[float, float]) -> dict[str, float | None] | None:
    """Return the positions in pixels of an interval's ends, value and controls' value, or None without an interval."""
    low, high = scale
    if figure.value is None or figure.low is None or figure.high is None or high <= low:
        return None
    ends = {"value": figure.value, "low": figure.low, "high": figure.high, "control": figure.control}
    room = WIDE - 2 * ROOM
    return {
        name: None if end is None else round(ROOM + room * (end - low) / (high - low), 1) for name, end in ends.items()
    }


def _figures(board: Board, column: Column) -> list[Figure]:
    return [entry.figure(column) for entry in board.entries]

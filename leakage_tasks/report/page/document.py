"""The page put together: markup, style, script and data in one file that loads nothing else."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from importlib import resources
from typing import Any

from leakage_tasks.core.version import __version__
from leakage_tasks.report.board.board import Board
from leakage_tasks.report.page.runs import tell_runs
from leakage_tasks.report.page.scatter import scatter
from leakage_tasks.report.page.table import heads, parts

STYLES = ("base.css", "table.css", "plots.css", "details.css", "print.css")
SCRIPTS = ("dom.js", "table.js", "about.js", "plot.js", "scatter.js", "spreads.js", "guesses.js", "run.js", "main.js")
"""In the order in which they stand in the page."""
_UNSAFE = {each: f"\\u{each:04x}" for each in (ord("<"), ord(">"), ord("&"), 0x2028, 0x2029)}


def page(board: Board, *, reveal: bool = False) -> str:
    """The board as one HTML document; the same board is the same text.

    ``reveal`` shows natural secrets and training text, as far as the runs logged them. Raises ResultsError for samples
    that cannot be read.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("leakage_tasks.report.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _joined(STYLES), f'"use strict";\n(() => {{\n{_joined(SCRIPTS)}}})();\n'
    runs = tell_runs(board, reveal=reveal)
    text = environment.get_template("page.html").render(
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
        heads=heads(board),
        parts=parts(board),
        ranked_by=_titles(board),
        kinds=sorted({entry.run.model for group in board.groups for entry in group.entries}),
        runs=runs,
        scatter=Markup(as_json(scatter(board))),
        details=[Markup(as_json(run)) for run in runs],
        reveal=reveal,
        version=__version__,
    )
    # Names from results may hold half a surrogate pair, which no UTF-8 file can.
    return text.encode("utf-8", "replace").decode("utf-8")


def styles(names: tuple[str, ...]) -> tuple[str, str]:
    """Style sheets as one text, and its hash as a policy names it."""
    text = _joined(names)
    return text, _digest(text)


def as_json(data: Any) -> str:
    """Data as JSON that cannot end the script element it stands in."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_UNSAFE)


def _titles(board: Board) -> list[str]:
    titles = {column.key: column.title for column in board.columns}
    return [titles[key] for key in board.ranked_by]


def _policy(style: str, script: str) -> str:
    """What the browser may do: run our script, apply our style, and nothing else."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; base-uri 'none'; "
        "form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@functools.cache
def _joined(names: tuple[str, ...]) -> str:
    folder = resources.files("leakage_tasks.report.page")
    kind = "style" if names[0].endswith(".css") else "script"
    return "".join((folder / kind / name).read_text(encoding="utf-8") for name in names)

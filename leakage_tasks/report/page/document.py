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
from leakage_tasks.report.board.board import Board
from leakage_tasks.report.page import table
from leakage_tasks.report.page.runs import tell_runs
from leakage_tasks.report.page.scatter import scatter
from leakage_tasks.report.reading.format import beside_lines, flag_words, interval, number, verdict_words

if TYPE_CHECKING:
    from markupsafe import Markup

STYLES = ("base.css", "table.css", "plots.css", "details.css", "print.css")
SCRIPTS = ("dom.js", "table.js", "about.js", "plot.js", "scatter.js", "spreads.js", "guesses.js", "run.js", "main.js")
"""In the order in which they stand in the page."""
_SHOWN: dict[str, Any] = {
    each.__name__: each
    for each in (
        *(table.badges, table.below_title, table.explained, table.picture),
        *(beside_lines, flag_words, interval, number, verdict_words),
    )
}
"""What the page's templates show columns, runs and figures by."""
_UNSAFE = {each: f"\\u{each:04x}" for each in (ord("<"), ord(">"), ord("&"), 0x2028, 0x2029)}


def page(board: Board, *, reveal: bool = False) -> str:
    """The board as one HTML document; the same board is the same text.

    ``reveal`` shows natural secrets and training text, as far as the runs logged them. Raises ResultsError for samples
    that cannot be read.
    """
    script = f'"use strict";\n(() => {{\n{_joined(SCRIPTS)}}})();\n'
    runs = tell_runs(board, reveal=reveal)
    titles = {column.key: column.title for column in board.columns}
    return render(
        "page.html",
        STYLES,
        script,
        board=board,
        scales=[table.scale(board, column) for column in board.columns],
        ranked_by=[titles[key] for key in board.ranked_by],
        kinds=sorted({entry.run.model for entry in board.entries}),
        runs=runs,
        scatter=as_json(scatter(board)),
        details=[as_json(run) for run in runs],
        reveal=reveal,
        **_SHOWN,
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
    style = _joined(styles)
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
def _joined(names: tuple[str, ...]) -> str:
    folder = resources.files("leakage_tasks.report.page")
    kind = "style" if names[0].endswith(".css") else "script"
    return "".join((folder / kind / name).read_text(encoding="utf-8") for name in names)

"""``leakage leaderboard``: compare runs in one table."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.help import REPORT
from leakage_tasks.cli.registry import register_command


@register_command("leaderboard", REPORT, 1, example="leakage leaderboard results -o board.html")
def leaderboard_command(
    results: Annotated[list[Path], typer.Argument(help="Results files of lm_eval, or folders with such files.")],
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            help="Also write the table to a .html, .md, .csv or .json file; repeatable.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show all metrics, not only the primary ones.")] = False,
    reveal: Annotated[bool, typer.Option("--reveal", help="Show natural secrets in the page.")] = False,
) -> None:
    """Compare runs in one table.

    For each model the table has its leakage and its usefulness.
    """
    from leakage_tasks.core.atomic import check_place, write_text
    from leakage_tasks.core.stable_inputs import unchanged
    from leakage_tasks.report.board.board import make_board
    from leakage_tasks.report.board.formats import as_text
    from leakage_tasks.report.board.outputs import output_of
    from leakage_tasks.report.load.results import files_read, read_runs

    outputs = [(path, output_of(path)) for path in output or []]
    for path, _ in outputs:
        check_place(path)
    with unchanged(*files_read(results)):
        board = make_board(read_runs(results))
        texts = [kind.text(board, every=every, reveal=reveal) for _, kind in outputs]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(as_text(board, every=every, width=width), end="")
    for (path, _), text in zip(outputs, texts, strict=True):
        write_text(path, text, private=reveal, errors="backslashreplace")
        print(f"wrote {path}")

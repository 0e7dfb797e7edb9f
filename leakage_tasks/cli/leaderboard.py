"""``leakage leaderboard``: runs side by side."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.registry import register_command


@register_command("leaderboard", 8)
def leaderboard_command(
    results: Annotated[list[Path], typer.Argument(help="Results files of lm_eval, or folders of them.")],
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            help="Write the board to a .html, .md, .csv or .json file; may be repeated.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every figure, not the headlines alone.")] = False,
    reveal: Annotated[bool, typer.Option("--reveal", help="Show secrets of kind natural in the page.")] = False,
) -> None:
    """Put any number of runs in one table: what leaks beside what the model is good for."""
    from leakage_tasks.core.atomic import check_place, write_text
    from leakage_tasks.core.stable_inputs import unchanged
    from leakage_tasks.report.board.board import make_board
    from leakage_tasks.report.board.formats import as_text
    from leakage_tasks.report.board.outputs import output_of
    from leakage_tasks.report.load.results import files_read, read_runs

    wanted = [(path, output_of(path)) for path in output or []]
    for path, _ in wanted:
        check_place(path)
    with unchanged(*files_read(results)):
        board = make_board(read_runs(results))
        texts = [kind.text(board, every=every, reveal=reveal) for _, kind in wanted]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(as_text(board, every=every, width=width), end="")
    for (path, _), text in zip(wanted, texts, strict=True):
        write_text(path, text, private=reveal, errors="backslashreplace")
        print(f"wrote {path}")

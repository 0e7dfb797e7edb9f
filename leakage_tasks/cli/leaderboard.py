"""``leakage leaderboard``: runs side by side."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.core.errors import OptionError

if TYPE_CHECKING:
    from leakage_tasks.report.board.board import Board

KINDS = (".html", ".md", ".csv", ".json")


def leaderboard_command(
    results: Annotated[list[Path], typer.Argument(help="Results files of lm_eval, or folders of them.")],
    output: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", help="Write the board to a .html, .md, .csv or .json file; may be repeated."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every figure, not the headlines alone.")] = False,
    reveal: Annotated[bool, typer.Option("--reveal", help="Show secrets of kind natural in the page.")] = False,
) -> None:
    """Put any number of runs in one table: what leaks beside what the model is good for."""
    from leakage_tasks.core.atomic import check_place, replacing
    from leakage_tasks.core.steady import unchanged
    from leakage_tasks.report.board.board import make_board
    from leakage_tasks.report.board.formats import as_text
    from leakage_tasks.report.reading.results import files_read, read_runs

    paths = _checked(output or [])
    for path in paths:
        check_place(path)
    with unchanged(*files_read(results)):
        board = make_board(read_runs(results))
        texts = [_as(path, board, every, reveal) for path in paths]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(as_text(board, every=every, width=width), end="")
    for path, text in zip(paths, texts, strict=True):
        with replacing(path, private=reveal) as beside:
            beside.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
        print(f"wrote {path}")


def _checked(paths: Sequence[Path]) -> Sequence[Path]:
    for path in paths:
        if path.suffix.lower() not in KINDS:
            raise OptionError(f"--output {path}: of no kind that is known: let it end in {', '.join(KINDS)}")
    return paths


def _as(path: Path, board: Board, every: bool, reveal: bool) -> str:
    from leakage_tasks.report.board.formats import as_csv, as_json, as_markdown

    kind = path.suffix.lower()
    if kind == ".html":
        from leakage_tasks.report.page import page

        return page(board, reveal=reveal)
    if kind == ".md":
        return as_markdown(board, every=every)
    return as_csv(board) if kind == ".csv" else as_json(board)

"""Reports on results of the harness, one function call each."""

from __future__ import annotations

from pathlib import Path

from leakage_tasks.core.atomic import write_text
from leakage_tasks.report.board.board import make_board
from leakage_tasks.report.card.card import make_card, read_card, read_measured_run, save_card
from leakage_tasks.report.load.results import read_runs
from leakage_tasks.report.load.samples import audit_of
from leakage_tasks.report.page import page


def write_board(results: str | Path, path: str | Path) -> None:
    """Write the leaderboard page of all runs in a folder, or of one file. Raises LeakageError.

    Examples:
        >>> from leakage_tasks import write_board
        >>> write_board("results", "leaderboard.html")
    """
    text = page(make_board(read_runs([results])))
    write_text(Path(path), text)


def write_card(results: str | Path, path: str | Path, name: str | None = None) -> None:
    """Write a run's results into a model card; creates the card if it does not exist. Raises LeakageError.

    Examples:
        >>> from leakage_tasks import write_card
        >>> write_card("results", "README.md", name="mine")
    """
    run = read_measured_run(Path(results))
    card = make_card(read_card(Path(path)), Path(path), run, name=name, audited=audit_of(run, 0.0))
    save_card(Path(path), card.text)

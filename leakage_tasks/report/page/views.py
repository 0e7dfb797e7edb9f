"""Figures and tables of usefulness against leakage, for each group of runs and pair of columns."""

from __future__ import annotations

from typing import Any

from leakage_tasks.report.board.board import Board
from leakage_tasks.report.board.front import Trade, trades
from leakage_tasks.report.load.format import with_interval
from leakage_tasks.report.page.spreads import Table
from leakage_tasks.report.plots.style import data_uri
from leakage_tasks.report.plots.trade import draw_trade

VIEWS, POINTS, ROWS = 12, 2400, 60
"""Maximum number of figures, of marks from which no further figure is drawn, and of rows of a table."""
MEASURED = {
    True: "a value of leakage: run a leakage task, such as canary_exposure",
    False: "a value of usefulness: run a task that measures it, such as heldout_bits_per_byte",
}


def describe_views(board: Board) -> tuple[list[dict[str, Any]], int]:
    """Return the most important views, ordered by group, and the number of views left out."""
    found = trades(board)
    shown: list[Trade] = []
    for trade in found[:VIEWS]:
        if sum(len(each.points) for each in shown) < POINTS:
            shown.append(trade)
    several = len(board.groups) > 1
    ordered = sorted(shown, key=lambda trade: trade.group)
    return [_view(trade, several) for trade in ordered], len(found) - len(shown)


def missing_value(board: Board) -> str:
    """Return the reason why a board has no views: the values that its runs lack, and how to measure them."""
    columns = [column for column in board.columns if column.shown and column.direction is not None]
    missing = [words for leakage, words in MEASURED.items() if all(column.leakage is not leakage for column in columns)]
    return "; ".join(f"no run has {words}" for words in missing) or "no run has values of both leakage and usefulness"


def _view(trade: Trade, several: bool) -> dict[str, Any]:
    rows = [
        [point.name, with_interval(point.across), with_interval(point.up), point.standing]
        for point in trade.points[:ROWS]
    ]
    words = f"{trade.across.title} against {trade.up.title}"
    return {
        "words": f"Group {trade.group}: {words}" if several else words,
        "figure": data_uri(draw_trade(trade)),
        "table": Table(words, ("Run", trade.across.heading, trade.up.heading, "Front"), rows),
        "more": max(0, len(trade.points) - ROWS),
        "left_out": trade.left_out,
    }

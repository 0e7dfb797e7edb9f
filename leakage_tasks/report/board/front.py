"""Usefulness against leakage: the points of a group in two columns, and their Pareto front.

A run is on the front if no other run is at least as good in both values and better in one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.board.board import Board, Column
from leakage_tasks.report.load.figures import Figure

Point = tuple[float, float]
ON_FRONT, UNRANKED = "on the front", "not ranked: see its warnings"
LARGEST = 1e15
"""Magnitude from which values are not drawn."""


class Front(NamedTuple):
    """Indices of the points on the front, sorted by the first value, best first. ``outdone`` maps each other point to a
    point on the front that dominates it."""

    members: tuple[int, ...]
    outdone: dict[int, int]


@dataclass(frozen=True)
class TradePoint:
    """One run with its values in both columns, and its ``standing`` towards the front in words."""

    name: str
    model: str
    across: Figure
    up: Figure
    standing: str


@dataclass(frozen=True)
class Trade:
    """The runs of group ``group`` (from 1) with values in both columns: the front first, unranked runs last.

    ``models`` lists the kinds of model of the whole board; ``left_out`` counts the group's runs that lack a value or
    have one that is too large to draw.
    """

    group: int
    across: Column
    up: Column
    points: tuple[TradePoint, ...]
    models: tuple[str, ...]
    left_out: int


def trades(board: Board) -> list[Trade]:
    """Return each group's runs for each primary metric of usefulness with the first of each leakage task.

    The most important pairs come first; groups without a run that has both values are left out.
    """
    shown = [column for column in board.columns if column.shown and column.direction is not None]
    first = {column.task: column for column in reversed(shown) if column.leakage}
    leaking = [column for column in shown if first.get(column.task) is column]
    useful = [column for column in shown if not column.leakage]
    pairs = product(leaking, range(1, len(board.groups) + 1), useful)
    found = (trade(board, group, across, up) for up, group, across in pairs)
    return [each for each in found if each.points]


def choose_trade(board: Board, across: str | None, up: str | None, group: int) -> Trade:
    """Return a group's runs in the columns with these titles; None for the most important column with a better side.

    Raises OptionError for an unknown column or group.
    """
    if not 1 <= group <= len(board.groups):
        raise OptionError(f"--group {group}: no such group: give a number from 1 to {len(board.groups)}")
    chosen = []
    for option, title, leakage in (("--across", across, False), ("--up", up, True)):
        offered = [column for column in board.columns if column.direction is not None and column.leakage is leakage]
        offered.sort(key=lambda column: not column.shown)
        found = [column for column in offered if title in (None, column.title)]
        if not found:
            problem = "no run has such a column" if title is None else f"{title!r} is no column that has a better side"
            titles = "; ".join(column.title for column in offered)
            raise OptionError(f"{option}: {problem}: {f'choose from {titles}' if titles else 'add other runs'}")
        chosen.append(found[0])
    return trade(board, group, *chosen)


def trade(board: Board, group: int, across: Column, up: Column) -> Trade:
    """Return the runs of a group, counted from 1, in two columns that have a better side."""
    entries = [
        (entry, entry.figure(across), entry.figure(up))
        for entry in board.groups[group - 1].entries
        if _drawable(entry.figure(across)) and _drawable(entry.figure(up))
    ]
    ranked = [each for each in entries if not each[0].unranked]
    values = [(wide.value or 0.0, high.value or 0.0) for _, wide, high in ranked]
    members, outdone = pareto_front(values, (str(across.direction), str(up.direction)))
    standings = dict.fromkeys(members, ON_FRONT)
    standings |= {index: f"dominated by {ranked[other][0].run.name}" for index, other in outdone.items()}
    placed = [(ranked[index], words) for index, words in standings.items()]
    placed += [(each, UNRANKED) for each in entries if each[0].unranked]
    points = tuple(
        TradePoint(entry.run.name, entry.run.model, wide, high, words) for (entry, wide, high), words in placed
    )
    models = tuple(sorted({entry.run.model for entry in board.entries}))
    return Trade(group, across, up, points, models, len(board.groups[group - 1].entries) - len(entries))


def pareto_front(points: Sequence[Point], better: tuple[str, str]) -> Front:
    """Return the points for which no other point is at least as good in both values and better in one.

    ``better`` names the better direction of each value, ``lower`` or ``higher``. Equal points share the front.
    """
    costs = [
        tuple(value if side == "lower" else -value for value, side in zip(point, better, strict=True))
        for point in points
    ]
    members: list[int] = []
    least = math.inf
    for candidate in sorted(range(len(points)), key=lambda index: (costs[index], index)):
        if costs[candidate][1] < least or (members and costs[members[-1]] == costs[candidate]):
            members.append(candidate)
            least = costs[candidate][1]
    outdone = {
        index: next(other for other in members if _dominates(costs[other], costs[index]))
        for index in range(len(points))
        if index not in members
    }
    return Front(tuple(members), outdone)


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    return one != other and all(left <= right for left, right in zip(one, other, strict=True))


def _drawable(figure: Figure) -> bool:
    ends = (figure.value, figure.low, figure.high)
    return figure.value is not None and all(end is None or abs(end) < LARGEST for end in ends)

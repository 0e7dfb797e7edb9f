"""Data of the plot of usefulness against leakage: axes, points, and the Pareto front of each pair of axes.

A run is on the front if no other run is at least as good in both values and better in one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

from leakage_tasks.report.board.board import Board, Column, Entry, Group
from leakage_tasks.report.load.figures import Figure
from leakage_tasks.report.load.format import interval, number

Point = tuple[float, float]


class Front(NamedTuple):
    """Indices of the points on the front, the best by the first value first; ``outdone`` maps others to members."""

    members: tuple[int, ...]
    outdone: dict[int, int]


def scatter(board: Board) -> dict[str, Any]:
    """Return axes, groups of points and fronts as JSON-able data.

    Fronts are keyed by ``group/across/up``, the group's index and the indices of both axes. A front holds indices of
    the group's points: its members, then pairs of a dominated point and a member that dominates it. Runs with faulty
    controls or without a primary metric are on no front.
    """
    axes = [column for column in board.columns if column.direction is not None and _has_any(board, column)]
    first = next((key for key in board.ranked_by if any(axis.key == key for axis in axes)), None)
    combinations = product(enumerate(board.groups), enumerate(axes), enumerate(axes))
    fields = ("title", "unit", "direction", "leakage", "shown")
    return {
        "axes": [{name: getattr(axis, name) for name in fields} | {"first": axis.key == first} for axis in axes],
        "groups": [
            {"reason": group.reason, "points": [_point(entry, axes) for entry in group.entries]}
            for group in board.groups
        ],
        "fronts": {
            f"{index}/{across}/{up}": front
            for (index, group), (across, wide), (up, high) in combinations
            if not wide.leakage and high.leakage and (front := _front(group, wide, high))
        },
    }


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


def _point(entry: Entry, axes: Sequence[Column]) -> dict[str, Any]:
    figures = [entry.figure(axis) for axis in axes]
    return {
        "name": entry.run.name,
        "model": entry.run.model,
        "fault": entry.unranked,
        "at": [None if figure.value is None else _coordinates(figure) for figure in figures],
    }


def _coordinates(figure: Figure) -> list[Any]:
    """Return the value, the lower and upper end (null without an interval), and all three as text."""
    ends = [figure.low, figure.high] if figure.low is not None and figure.high is not None else [None, None]
    return [figure.value, *ends, f"{number(figure.value)} {interval(figure)}".strip()]


def _front(group: Group, across: Column, up: Column) -> list[Any] | None:
    indices, points = [], []
    for index, entry in enumerate(group.entries):
        wide, high = entry.figure(across).value, entry.figure(up).value
        if wide is not None and high is not None and not entry.unranked:
            indices.append(index)
            points.append((wide, high))
    if not points:
        return None
    front = pareto_front(points, (str(across.direction), str(up.direction)))
    outdone = [[indices[one], indices[other]] for one, other in front.outdone.items()]
    return [[indices[member] for member in front.members], outdone]


def _has_any(board: Board, column: Column) -> bool:
    return any(entry.figure(column).value is not None for entry in board.entries)

"""What the plot of usefulness against leakage is drawn from: axes, points, and the front of every pair of axes.

A Pareto front holds the runs that no other run outdoes in two figures at once.
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
    """Places of the points on the front, the best by the first figure first, and of one that outdoes each other."""

    members: tuple[int, ...]
    outdone: dict[int, int]


def scatter(board: Board) -> dict[str, Any]:
    """Axes, groups of points and fronts, JSON-able; fronts are by ``group/across/up``, the last two places of axes.

    A front holds places of the group's points: members first to last, then pairs of one outdone and one that outdoes
    it. Runs whose controls show a fault, or that have no headline, are on none.
    """
    axes = [column for column in board.columns if column.direction is not None and _has_any(board, column)]
    first = next((key for key in board.ranked_by if any(axis.key == key for axis in axes)), None)
    places = product(enumerate(board.groups), enumerate(axes), enumerate(axes))
    told = ("title", "unit", "direction", "leakage", "shown")
    return {
        "axes": [{name: getattr(axis, name) for name in told} | {"first": axis.key == first} for axis in axes],
        "groups": [
            {"reason": group.reason, "points": [_point(entry, axes) for entry in group.entries]}
            for group in board.groups
        ],
        "fronts": {
            f"{at}/{across}/{up}": front
            for (at, group), (across, wide), (up, high) in places
            if not wide.leakage and high.leakage and (front := _front(group, wide, high))
        },
    }


def pareto_front(points: Sequence[Point], better: tuple[str, str]) -> Front:
    """The points for which no other is at least as good in both figures and better in one.

    ``better`` says of each figure whether ``lower`` or ``higher`` is. Equal points are on the front together.
    """
    costs = [
        tuple(value if side == "lower" else -value for value, side in zip(point, better, strict=True))
        for point in points
    ]
    members: list[int] = []
    least = math.inf
    for place in sorted(range(len(points)), key=lambda index: (costs[index], index)):
        if costs[place][1] < least or (members and costs[members[-1]] == costs[place]):
            members.append(place)
            least = costs[place][1]
    outdone = {
        index: next(other for other in members if _outdoes(costs[other], costs[index]))
        for index in range(len(points))
        if index not in members
    }
    return Front(tuple(members), outdone)


def _outdoes(one: Sequence[float], other: Sequence[float]) -> bool:
    return one != other and all(left <= right for left, right in zip(one, other, strict=True))


def _point(entry: Entry, axes: Sequence[Column]) -> dict[str, Any]:
    found = [entry.figure(axis) for axis in axes]
    return {
        "name": entry.run.name,
        "model": entry.run.model,
        "fault": entry.unranked,
        "at": [None if each.value is None else _place(each) for each in found],
    }


def _place(found: Figure) -> list[Any]:
    """Value, lower and upper end (null without an interval), and all three in words."""
    ends = [found.low, found.high] if found.low is not None and found.high is not None else [None, None]
    return [found.value, *ends, f"{number(found.value)} {interval(found)}".strip()]


def _front(group: Group, across: Column, up: Column) -> list[Any] | None:
    places, points = [], []
    for index, entry in enumerate(group.entries):
        wide, high = entry.figure(across).value, entry.figure(up).value
        if wide is not None and high is not None and not entry.unranked:
            places.append(index)
            points.append((wide, high))
    if not points:
        return None
    front = pareto_front(points, (str(across.direction), str(up.direction)))
    outdone = [[places[one], places[other]] for one, other in front.outdone.items()]
    return [[places[member] for member in front.members], outdone]


def _has_any(board: Board, column: Column) -> bool:
    return any(entry.figure(column).value is not None for entry in board.entries)

"""What the plot of usefulness against leakage is drawn from: axes, points, and the front of every pair of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leakage_tasks.report.board.board import Board, Column, Entry, Group
from leakage_tasks.report.page.front import pareto_front
from leakage_tasks.report.reading.figures import Figure
from leakage_tasks.report.reading.format import interval, number


def scatter(board: Board) -> dict[str, Any]:
    """Axes, groups of points and fronts, JSON-able; fronts are by ``group/across/up``, the last two places of axes.

    A front holds places of the group's points: members first to last, then pairs of one outdone and one that outdoes
    it. Runs whose controls show a fault, or that have no headline, are on none.
    """
    axes = [column for column in board.columns if column.better is not None and _has_any(board, column)]
    first = next((key for key in board.ranked_by if any(axis.key == key for axis in axes)), None)
    return {
        "axes": [_axis(axis, axis.key == first) for axis in axes],
        "groups": [
            {"reason": group.reason, "points": [_point(entry, axes) for entry in group.entries]}
            for group in board.groups
        ],
        "fronts": _fronts(board, axes),
    }


def _axis(column: Column, first: bool) -> dict[str, Any]:
    return {
        "title": column.title,
        "unit": column.unit,
        "better": column.better,
        "leakage": column.leakage,
        "shown": column.shown,
        "first": first,
    }


def _point(entry: Entry, axes: Sequence[Column]) -> dict[str, Any]:
    found = [entry.figures.get(axis.key) for axis in axes]
    return {
        "name": entry.run.name,
        "model": entry.run.model,
        "fault": _faulty(entry),
        "at": [None if each is None or each.value is None else _place(each) for each in found],
    }


def _place(found: Figure) -> list[Any]:
    """Value, lower and upper end (null without an interval), and all three in words."""
    ends = [found.low, found.high] if found.low is not None and found.high is not None else [None, None]
    return [found.value, *ends, f"{number(found.value)} {interval(found)}".strip()]


def _fronts(board: Board, axes: Sequence[Column]) -> dict[str, list[Any]]:
    found = {}
    for at, group in enumerate(board.groups):
        for across, wide in enumerate(axes):
            for up, high in enumerate(axes):
                if not wide.leakage and high.leakage and (front := _front(group, wide, high)):
                    found[f"{at}/{across}/{up}"] = front
    return found


def _front(group: Group, across: Column, up: Column) -> list[Any] | None:
    places, points = [], []
    for place, entry in enumerate(group.entries):
        wide, high = (entry.figures.get(axis.key, Figure(None)).value for axis in (across, up))
        if wide is not None and high is not None and not _faulty(entry):
            places.append(place)
            points.append((wide, high))
    if not points:
        return None
    front = pareto_front(points, (str(across.better), str(up.better)))
    outdone = [[places[one], places[other]] for one, other in front.outdone.items()]
    return [[places[each] for each in front.members], outdone]


def _faulty(entry: Entry) -> bool:
    return any(flag.unranked for flag in entry.flags)


def _has_any(board: Board, column: Column) -> bool:
    found = (entry.figures.get(column.key) for group in board.groups for entry in group.entries)
    return any(each is not None and each.value is not None for each in found)

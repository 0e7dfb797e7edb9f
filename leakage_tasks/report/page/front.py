"""Pareto fronts: the runs that no other run outdoes in two figures at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

Point = tuple[float, float]


class Front(NamedTuple):
    """Places of the points on the front, the best by the first figure first, and of one that outdoes each other."""

    members: tuple[int, ...]
    outdone: dict[int, int]


def pareto_front(points: Sequence[Point], better: tuple[str, str]) -> Front:
    """The points for which no other is at least as good in both figures and better in one.

    ``better`` says of each figure whether ``lower`` or ``higher`` is. Equal points are on the front together.
    """
    costs = [tuple(_cost(value, side) for value, side in zip(point, better, strict=True)) for point in points]
    order = sorted(range(len(points)), key=lambda place: (costs[place], place))
    members: list[int] = []
    least = math.inf
    for place in order:
        first, second = costs[place]
        if second < least or (members and costs[members[-1]] == (first, second)):
            members.append(place)
            least = second
    outdone = {
        place: next(other for other in members if _outdoes(costs[other], costs[place]))
        for place in range(len(points))
        if place not in members
    }
    return Front(tuple(members), outdone)


def _cost(value: float, better: str) -> float:
    return value if better == "lower" else -value


def _outdoes(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(left <= right for left, right in zip(one, other, strict=True)) and tuple(one) != tuple(other)

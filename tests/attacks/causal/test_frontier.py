"""The frontier of best-first search against a plain sorted list."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.attacks.causal.frontier import Frontier
from leakage_tasks.attacks.causal.nodes import Children, Nodes

WIDTH = 3
COSTS = st.lists(st.lists(st.integers(0, 4), min_size=WIDTH, max_size=WIDTH), min_size=1, max_size=4)


class Explorer:
    """Nodes whose children cost what is written beside them; column c of state s leads to ``10 s + c``."""

    def __init__(self) -> None:
        self.paths = SimpleNamespace(table=lambda states: states[:, None] * 10 + np.arange(WIDTH))

    def children(self, nodes: Any, bound: float) -> Children:
        parents, columns = np.nonzero(nodes.following <= bound)
        return Children(parents, columns, nodes.states[parents] * 10 + columns, nodes.following[parents, columns])


def batch(costs: list[list[int]], number: int) -> Nodes:
    states = np.arange(len(costs)) + 100 * number
    return Nodes(states, np.zeros(len(costs)), np.zeros((len(costs), 0), dtype=np.int64), None, np.array(costs, float))


@given(st.lists(st.tuples(st.lists(COSTS, max_size=3), st.integers(0, 5), st.integers(1, 7)), min_size=1, max_size=6))
def test_children_come_out_in_order_of_cost_and_age(steps: list[tuple[list[Any], int, int]]) -> None:
    frontier, waiting, made, bound = Frontier(Explorer()), [], 0, 5  # type: ignore[arg-type]
    for added, lower, most in steps:
        bound = min(bound, lower + 1)
        for costs in added:
            nodes = batch(costs, made)
            frontier.add(nodes, bound)
            waiting += [
                (cost, made, parent, column, int(nodes.states[parent]) * 10 + column)
                for parent, row in enumerate(costs)
                for column, cost in enumerate(row)
                if cost <= bound
            ]
            made += 1
        waiting.sort()
        assert frontier.cheapest() == (waiting[0][0] if waiting else np.inf)
        expected = [each for each in waiting[:most] if each[0] <= bound]
        waiting = waiting[len(expected) :]
        found = []
        for nodes, children in frontier.pop(most, bound):
            number = int(nodes.states[0]) // 100
            columns = (children.costs, children.parents, children.columns, children.states)
            found += [(cost, number, *rest) for cost, *rest in zip(*(each.tolist() for each in columns), strict=True)]
        assert sorted(found) == expected
        assert bool(frontier) == bool(waiting)
        assert len(frontier._batches) == len({number for _, number, *_ in waiting})

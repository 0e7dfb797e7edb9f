"""Exact ranks by pruned search, computed for many canaries at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from leakage_tasks.attacks.causal.forest import Forest, SecretMask, in_forest
from leakage_tasks.attacks.causal.nodes import Children, Nodes
from leakage_tasks.attacks.causal.secret_path import RankedSecret, SecretPath
from leakage_tasks.attacks.finding import AttackResult, Guess
from leakage_tasks.core.arrays import IntArray

USUAL_ROWS = 4
"""Number of nodes that a count for a memorized secret reads at once."""


@dataclass(frozen=True)
class RankCount:
    """Number of fillings other than the secret that cost no more than it (``others``), and the cheapest fillings.

    Rounding may change the secret's cost. ``fewest`` and ``most`` are the counts for a cost that is lower, and higher,
    by the rounding margin.
    """

    others: int
    cheapest: tuple[Guess, ...]
    fewest: int
    most: int

    def fields(self) -> AttackResult:
        """Return the finding's fields about the rank, with an interval if rounding may change the rank."""
        if self.fewest == self.most:
            return {"rank": self.others + 1, "method": "exact"}
        ends: AttackResult = {"rank_low": self.fewest + 1.0, "rank_high": self.most + 1.0}
        return {"rank": self.others + 1, "method": "exact", **ends}


class _Request(NamedTuple):
    """A request for the count of one ``secret``, until its tree has scored ``limit`` sequences.

    The nodes of its ``path`` have been read and are not read again.
    """

    secret: RankedSecret
    limit: int
    path: SecretPath | None


def count_exactly(secret: RankedSecret, budget: int, path: SecretPath | None = None) -> RankCount | None:
    """Count cheaper fillings by pruned search; return None if it takes more than ``budget`` sequences.

    Costs only grow along a path, so every partial filling that costs more than the secret is pruned. The count of the
    remaining fillings gives the exact rank (The Secret Sharer, Definition 2) without enumerating R. If costs may
    decrease, nothing is pruned.

    Args:
        secret: The secret. The tree is read up to its highest bound.
        budget: The most sequences to score.
        path: The secret's path, if its nodes have been read; they are not read again.

    Returns:
        The count, or None.
    """
    if path is not None and path.cheaper_siblings > budget:
        return None
    return in_forest(_counts, secret.explorer, _Request(secret, secret.explorer.calls + budget, path), USUAL_ROWS)


def _counts(forest: Forest, requests: Sequence[_Request]) -> list[RankCount | None]:
    counting = _Counting(forest, requests)
    counting.follow_paths()
    counting.read_pending()
    return counting.results()


class _Counting:
    """Counts in the trees of a forest, depth first, which limits the memory."""

    def __init__(self, forest: Forest, requests: Sequence[_Request]) -> None:
        self._forest, self._requests = forest, requests
        secrets = [request.secret for request in requests]
        self._limits = np.array([request.limit for request in requests])
        self._cuts = np.array([forest.cut(secret.highest) for secret in secrets])
        margins = np.array([secret.margin for secret in secrets])
        self._bounds = np.array([secret.bound for secret in secrets]) + margins * np.array([[-1], [0], [1]])
        self._secrets = SecretMask([secret.path for secret in secrets])
        self._counts = np.zeros(self._bounds.shape, dtype=np.int64)
        self._best: list[list[Guess]] = [[] for _ in requests]
        self._parts: list[tuple[Nodes, Children]] = []
        self._pending = np.zeros(len(requests), dtype=np.int64)
        self._is_over = np.zeros(len(requests), dtype=bool)

    def follow_paths(self) -> None:
        """Count along the paths of the secrets, and keep the children beside them."""
        tokens = [() if request.path is None else request.secret.path for request in self._requests]
        last = np.array([max(len(path) - 1, 0) for path in tokens])
        for depth in range(int(last.max()) + 1):
            # At its last node, a path has no further node to leave out.
            next_tokens = np.array([path[depth] if depth < end else -1 for path, end in zip(tokens, last, strict=True)])
            for nodes in self._path_nodes(np.flatnonzero((last >= depth) & ~self._is_over), depth):
                onward = self._counted(nodes)
                trees = self._forest.trees_of(nodes, onward)
                self._keep(nodes, onward[self._forest.tokens(onward.columns) != next_tokens[trees]])

    def _path_nodes(self, trees: IntArray, depth: int) -> Iterator[Nodes]:
        """Yield the nodes of this depth on the paths of ``trees``; nodes without cached states are apart."""
        if depth == 0:
            yield self._forest.root
            return
        paths = ((tree, self._requests[tree].path) for tree in trees.tolist())
        nodes = [(tree, path.node(depth)) for tree, path in paths if path is not None]
        for freed in (False, True):
            here = [(tree, node) for tree, node in nodes if (node.memory is None) == freed]
            if here:
                yield self._forest.joined(*zip(*here, strict=True))

    def read_pending(self) -> None:
        """Read and count all nodes below the kept children, in the trees whose limit is not reached."""
        while self._parts:
            above, children = self._parts.pop()
            trees = self._forest.trees_of(above, children)
            self._pending -= np.bincount(trees, minlength=len(self._pending))
            children = children[~self._is_over[trees]]
            if len(children):
                nodes = self._forest.read_part(above, children)
                self._keep(nodes, self._counted(nodes))

    def _counted(self, nodes: Nodes) -> Children:
        """Count the fillings that the children of nodes complete, and return the children that go on."""
        forest, paths = self._forest, self._forest.paths
        children = forest.children(nodes, self._cuts[nodes.trees][:, None])
        ending = children[paths.ends(children.states)]
        if len(ending):
            trees, tokens = forest.trees_of(nodes, ending), forest.child_paths(nodes, ending)
            fillings = forest.count(ending.states, tokens, trees) - self._secrets.of(tokens, trees)
            for counts, bounds in zip(self._counts, self._bounds, strict=True):
                np.add.at(counts, trees, np.where(ending.costs <= bounds[trees], fillings, 0))
            forest.add_guesses(self._best, nodes, ending)
        return children[paths.goes_on(children.states)]

    def _keep(self, nodes: Nodes, children: Children) -> None:
        """Keep children that are not yet read; a tree with too many is over."""
        self._parts += [(nodes, children[part]) for part in self._forest.parts(nodes, children)]
        self._pending += np.bincount(self._forest.trees_of(nodes, children), minlength=len(self._pending))
        self._is_over |= self._forest.spent + self._pending > self._limits

    def results(self) -> list[RankCount | None]:
        """Return the count of each tree; None if its limit was reached."""
        return [
            None if is_over else RankCount(others, tuple(best), fewest, most)
            for is_over, (fewest, others, most), best in zip(
                self._is_over.tolist(), self._counts.T.tolist(), self._best, strict=True
            )
        ]

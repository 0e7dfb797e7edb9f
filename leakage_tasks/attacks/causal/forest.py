"""Search trees of several canaries, whose nodes are read and compared together with few operations on large arrays.

Canaries of one template have one automaton of tokens, so the states of their nodes are in one table. A stage of an
attack, such as a beam search, is written for a forest; one tree is a forest of one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple, TypeVar, cast

import numpy as np

from leakage_tasks.attacks.causal.nodes import Children, Nodes
from leakage_tasks.attacks.causal.search_tree import CELLS, Reached, SearchTree
from leakage_tasks.attacks.finding import Guess
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray
from leakage_tasks.targets.attack_coroutine import share_rows, submit_jointly
from leakage_tasks.targets.batching import Capacity
from leakage_tasks.targets.protocols import SharesPasses

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Stage = Callable[["Forest", Sequence[Request]], Sequence[Answer]]
"""A function that computes one answer for each tree of a forest from the request for this tree."""


def in_forest(
    stage: Stage[Request, Answer], tree: SearchTree, request: Request, rows: int, form: Hashable = None
) -> Answer:
    """Compute a stage of a search for one tree, together with the trees of other canaries that wait for it.

    Args:
        stage: The stage.
        tree: The tree.
        request: The stage's request for this tree.
        rows: Usual number of nodes that the stage reads at once in this tree.
        form: Key of requests that the stage can compute together.

    Returns:
        The stage's answer for this tree.
    """
    target, first = tree.target, tree.root
    # Cheaper than a check of the whole protocol.
    if not hasattr(target, "model_key"):
        return stage(Forest([tree]), [request])[0]
    target = cast(SharesPasses, target)
    most = max(1, CELLS // len(tree.paths.columns) // 2)
    capacity = Capacity(min(target.step_rows(first.memory), most), target.state_bytes(first.memory), target.states.most)
    kind: Hashable = stage, form, target.model_key, id(getattr(tree.paths, "graph", tree.paths))

    def many(requests: Sequence[tuple[SearchTree, Request]]) -> Sequence[Answer]:
        trees, arguments = zip(*requests, strict=True)
        return stage(Forest(trees), arguments)

    return submit_jointly(kind, many, (tree, request), min(rows, most), capacity)


class TreePart(NamedTuple):
    """The nodes of one ``tree`` in a batch, with their children.

    They are the rows from ``first`` on of the batch, and the ``rows`` of its children.
    """

    tree: int
    nodes: Nodes
    children: Children
    first: int
    rows: slice


class Forest(SearchTree):
    """Search trees with one automaton on one model. ``root`` has their roots; each node has the index of its tree."""

    def __init__(self, trees: Sequence[SearchTree]) -> None:
        self.trees = trees
        first, roots = trees[0], [tree.root for tree in trees]
        # The trees share everything but their prefixes.
        self.target, self.space, self.paths, self.grows = first.target, first.space, first.paths, first.grows
        self._states = first._states
        self.most = max(1, CELLS // len(first.paths.columns))
        """Maximum number of nodes to read at once."""
        self.root = self.joined(range(len(trees)), roots)

    @staticmethod
    def joined(trees: Sequence[int], parts: Sequence[Nodes]) -> Nodes:
        """Return nodes of equal depth as nodes of a forest, one from each of ``trees``, ascending.

        All have cached states, or none.
        """
        states, costs, paths, following = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("states", "costs", "paths", "following")
        )
        texts = [part.memory for part in parts]
        memory = None if texts[0] is None else type(texts[0]).joined(texts)
        return Nodes(states, costs, paths, memory, following, np.array(trees))

    def __len__(self) -> int:
        return len(self.trees)

    @property
    def spent(self) -> IntArray:
        """Number of sequences scored for each tree, ``[trees]``."""
        return np.array([tree.calls for tree in self.trees])

    def rows(self, depth: int) -> int:
        """Return the number of nodes to read at once; the scheduler splits the nodes of several trees into batches."""
        return self.trees[0].rows(depth) if len(self) == 1 else self.most

    def trees_of(self, nodes: Nodes, children: Children) -> IntArray:
        """Return the index of each child's tree, ascending, ``[m]``."""
        return self._trees_of([nodes], children.parents, children.parents)

    def _trees_of(self, batches: Sequence[Nodes], which: IntArray, parents: IntArray) -> IntArray:
        (nodes,) = batches
        assert nodes.trees is not None
        trees: IntArray = nodes.trees[parents]
        return trees

    def _announce(self, trees: IntArray) -> None:
        share_rows(np.bincount(trees, minlength=len(self)))

    def _count(self, trees: IntArray, again: bool = False) -> None:
        for tree, number in zip(self.trees, np.bincount(trees, minlength=len(self)).tolist(), strict=True):
            tree.add_nodes(number, again)

    def read_ahead(self, tokens: IntArray, lengths: IntArray) -> list[Reached | None]:
        """Read tokens ``[trees, k]`` after the roots in one pass, the first ``lengths`` ``[trees]`` of each.

        Returns for each of the k tokens what :meth:`read` takes as ``known``, or None if the model cannot. The nodes
        are counted when :meth:`read` returns them.
        """
        follow = getattr(self.target, "follow", None)
        (going,) = np.nonzero(lengths)
        if follow is None or not len(going):
            return [None] * tokens.shape[1]
        self._announce(going)
        tokens, lengths = tokens[going, : lengths.max()], lengths[going]
        found = follow(self.root.memory[going], tokens, lengths, self.paths.columns)
        if found is None:
            return [None] * tokens.shape[1]
        levels, costs = found
        return [(texts, costs[lengths > depth, depth]) for depth, texts in enumerate(levels)]

    def count(self, states: IntArray, paths: IntArray, trees: IntArray) -> IntArray:
        """Return the number of fillings of each path ``[n, d]`` in its tree; a tree's prefix may decide on it."""
        counts = np.zeros(len(states), dtype=np.int64)
        for tree in np.unique(trees).tolist():
            here = trees == tree
            counts[here] = self.trees[tree].paths.count(states[here], paths[here])
        return counts

    def add_guesses(self, best: list[list[Guess]], nodes: Nodes, ending: Children) -> None:
        """Add the fillings that the children ``ending`` of nodes complete to the ``best`` guesses of their tree."""
        trees = self.trees_of(nodes, ending)
        for tree in np.unique(trees).tolist():
            best[tree] = self.trees[tree].cheapest(nodes, ending[trees == tree], best[tree])

    def parts_of_trees(self, nodes: Nodes, children: Children) -> Iterator[TreePart]:
        """Yield the nodes of each tree, without cached states, and their children."""
        assert nodes.trees is not None
        trees, first = np.unique(nodes.trees, return_index=True)
        ends = [*first.tolist(), len(nodes)]
        rows = np.searchsorted(children.parents, ends).tolist()
        for index, tree in enumerate(trees.tolist()):
            span, below = slice(ends[index], ends[index + 1]), slice(rows[index], rows[index + 1])
            part = children[below]
            part = Children(part.parents - span.start, part.columns, part.states, part.costs)
            yield TreePart(tree, nodes.without_memory(span), part, span.start, below)

    def first_of_each(self, costs: FloatArray, trees: IntArray, most: IntArray) -> IntArray:
        """Return the rows of the cheapest costs of each tree, in their order; ties go to the earlier row.

        Args:
            costs: Costs in bits, ``[m]``.
            trees: Index of the tree of each cost, ascending, ``[m]``.
            most: Maximum number of rows of each tree, ``[trees]``.
        """
        number, first = np.arange(len(trees)), np.searchsorted(trees, trees)
        # Few trees may be left, so only trees with costs have a row in the table.
        row, column, most = (first == number).cumsum() - 1, number - first, most[trees[first == number]]
        table = np.full((len(most), int(column.max(initial=0)) + 1), np.inf)
        table[row, column] = costs
        # Sorting values takes much less time than sorting indices.
        limit = np.sort(table, axis=1)[np.arange(len(most)), np.minimum(most, table.shape[1]) - 1]
        limit = np.where(most > 0, limit, -np.inf)[:, None]
        cheaper, tied = table < limit, table == limit
        chosen = cheaper | (tied & (tied.cumsum(axis=1) <= (most - cheaper.sum(axis=1))[:, None]))
        return np.flatnonzero(chosen[row, column])


class SecretMask:
    """The token paths of secrets, one in each tree of a forest."""

    def __init__(self, secrets: Sequence[Sequence[int]]) -> None:
        self._lengths = np.array([len(secret) for secret in secrets])
        self._paths = np.full((len(secrets), int(self._lengths.max(initial=0))), -1, dtype=np.int64)
        filled = np.arange(self._paths.shape[1]) < self._lengths[:, None]
        self._paths[filled] = [token for secret in secrets for token in secret]

    def of(self, paths: IntArray, trees: IntArray) -> BoolArray:
        """Return a mask of the ``paths`` ``[n, d]`` that are the secret's path in their tree."""
        depth = paths.shape[1]
        if depth > self._paths.shape[1]:
            return np.zeros(len(paths), dtype=bool)
        same: BoolArray = (paths == self._paths[trees, :depth]).all(axis=1) & (self._lengths[trees] == depth)
        return same

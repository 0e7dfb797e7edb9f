"""A secret in the search tree of its space, whose path is read before a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.causal.completions import bins_for
from leakage_tasks.attacks.causal.forest import Forest, in_forest
from leakage_tasks.attacks.causal.lookahead import Lookahead
from leakage_tasks.attacks.causal.nodes import Children, Nodes
from leakage_tasks.attacks.causal.search_tree import SearchTree, finite, mask_of, within
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray

QUARTILES = 1.349
"""Distance between the quartiles of a normal distribution, in standard deviations."""


@dataclass(frozen=True)
class RankedSecret:
    """A secret to rank among the fillings of a search tree, by their costs in bits after the prefix.

    ``path`` has its tokens after the prefix. A filling of cost ``bound`` or less ranks before it; ties are included.
    Rounding may change the secret's cost by up to ``margin`` bits. ``spread`` is the standard deviation of the costs of
    the tokens that may follow a node of its path, in bits, from their quartiles: the root mean square over the nodes
    with a choice.
    """

    explorer: SearchTree
    path: tuple[int, ...]
    bound: float
    margin: float = 0.0
    spread: float = 0.0

    @property
    def bounds(self) -> tuple[float, ...]:
        """The bound; with a margin, also the bounds for a cost that is lower, and higher, by the margin."""
        return (self.bound, self.bound - self.margin, self.highest) if self.margin else (self.bound,)

    @property
    def highest(self) -> float:
        """The largest of the bounds."""
        return self.bound + self.margin

    def others(self, nodes: Nodes, children: Children) -> tuple[Children, IntArray]:
        """Return the children that complete a filling up to the highest bound, and the number of fillings of each.

        The secret is not counted.
        """
        paths = self.explorer.paths
        ending = children[paths.ends(children.states) & (children.costs <= self.highest)]
        tokens = self.explorer.child_paths(nodes, ending)
        return ending, paths.count(ending.states, tokens) - mask_of(tokens, self.path)

    def lookahead(self) -> Lookahead:
        """Return a lookahead that has seen nothing."""
        return Lookahead(self.explorer, self.bound, bins_for(self.bound, self.spread))


class SecretPath:
    """The nodes along a secret's path after the prefix, which the model has read, and the cost of the secret.

    A search takes these nodes from here when their cost is due, so that it reads no node twice and sees none earlier
    than a search without knowledge of the secret.
    """

    def __init__(self, explorer: SearchTree, path: Sequence[int]) -> None:
        """Read the path, in one pass if the model can; the last token is not read. Raises TargetError for a cost that
        is not finite."""
        read = in_forest(_read_paths, explorer, tuple(path), 1)
        self._explorer, self._path, self._tree, self._levels = explorer, tuple(path), read.tree, read.levels
        self._spread = read.spread
        self.cost = finite(read.cost)
        """Cost of the secret after the prefix, in bits."""
        self.cheaper_siblings = read.cheaper_siblings
        """Number of nodes beside the path that cost no more than the secret; only a search can tell how many of their
        fillings do."""

    def ranked(self, margin: float = 0.0) -> RankedSecret:
        """Return the secret to rank, whose cost rounding may change by up to ``margin`` bits."""
        return RankedSecret(self._explorer, self._path, within(self.cost), margin, self._spread)

    def on_path(self, nodes: Nodes, children: Children) -> BoolArray:
        """Return a mask of the children that are nodes of this path, ``[m]``; it has at most one true element."""
        depth = nodes.paths.shape[1] + 1
        if depth >= len(self):
            return np.zeros(len(children), dtype=bool)
        return mask_of(self._explorer.child_paths(nodes, children), self._path[:depth])

    def __len__(self) -> int:
        """Return the number of nodes of the path, with the root and without the last."""
        return len(self._path)

    def node(self, depth: int) -> Nodes:
        """Return the path's node of ``depth``, from 1."""
        return self._explorer.only_node(self._levels[depth - 1], self._tree)


@dataclass(frozen=True)
class _ReadPath:
    """A path that was read: its cost in bits, the number of its cheaper siblings, and the spread of their costs.

    Its nodes after the root are in the ``levels`` of a forest, in which it belongs to tree number ``tree``.
    """

    levels: Sequence[Nodes]
    tree: int
    cost: float
    cheaper_siblings: int
    spread: float


def _read_paths(forest: Forest, paths: Sequence[tuple[int, ...]]) -> list[_ReadPath]:
    """Read a path in each tree of a forest."""
    lengths, tokens = np.array([len(path) for path in paths]), [token for path in paths for token in path]
    columns = np.full((len(paths), int(lengths.max(initial=0))), -1, dtype=np.int64)
    columns[np.arange(columns.shape[1]) < lengths[:, None]] = forest.columns_of(tokens)
    known = forest.read_ahead(forest.tokens(columns), lengths - 1)
    costs, nodes = np.zeros(len(paths)), forest.root
    levels: list[Nodes] = []
    siblings: list[tuple[IntArray, FloatArray]] = []
    squares, choices = np.zeros((2, len(paths)))
    for depth in range(columns.shape[1]):
        children = forest.children(nodes)
        trees = forest.trees_of(nodes, children)
        own = children.columns == columns[trees, depth]
        beside = forest.paths.goes_on(children.states) & ~own
        siblings.append((trees[beside], children.costs[beside]))
        spreads, counts = _spreads(trees, children.costs, len(paths))
        squares, choices = squares + spreads**2, choices + (counts > 1)
        is_last = lengths[trees] == depth + 1
        costs[trees[own & is_last]] = children.costs[own & is_last]
        going = children[own & ~is_last]
        if len(going):
            nodes = forest.read_part(nodes, going, known[depth])
            levels.append(nodes)
    cheaper = np.zeros(len(paths), dtype=np.int64)
    for trees, beside_costs in siblings:
        cheaper += np.bincount(trees[beside_costs <= within(costs)[trees]], minlength=len(paths))
    spreads = np.sqrt(squares / np.maximum(choices, 1))
    read = enumerate(zip(costs.tolist(), cheaper.tolist(), spreads.tolist(), strict=True))
    return [_ReadPath(levels, tree, *numbers) for tree, numbers in read]


def _spreads(trees: IntArray, costs: FloatArray, number: int) -> tuple[FloatArray, IntArray]:
    """Return the standard deviation of the finite costs in each tree, estimated from their quartiles, ``[number]``, and
    the number of these costs.

    The variance itself would depend mostly on a few likely tokens, although the rank depends on all.
    """
    is_finite = np.isfinite(costs)
    trees, costs = trees[is_finite], costs[is_finite]
    counts = np.bincount(trees, minlength=number)
    if not len(costs):
        return np.zeros(number), counts
    ordered, last = costs[np.lexsort((costs, trees))], np.maximum(counts - 1, 0)
    first = np.minimum(counts.cumsum() - counts, len(costs) - 1)
    ranges: FloatArray = ordered[first + last - last // 4] - ordered[first + last // 4]
    return ranges / QUARTILES, counts

"""The path of a secret, read before a search of its tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.attacks.causal.search_tree import Children, Nodes, SearchTree, finite, mask_of, within
from leakage_tasks.core.arrays import FloatArray


class SecretPath:
    """The nodes along a secret's path after the prefix, which the model has read, and the cost of the secret.

    A search takes these nodes from here when their cost is due, so that it reads no node twice and sees none earlier
    than a search without knowledge of the secret.
    """

    def __init__(self, explorer: SearchTree, path: Sequence[int]) -> None:
        """Read the path token by token; the last token is not read. Raises TargetError for a cost that is not
        finite."""
        self._path, self._nodes = tuple(path), [explorer.root]
        siblings: list[FloatArray] = []
        for token in path:
            children = explorer.children(self._nodes[-1])
            own = explorer.tokens(children.columns) == token
            siblings.append(children.costs[explorer.paths.goes_on(children.states) & ~own])
            if len(siblings) == len(path):
                self.cost = finite(float(children.costs[own][0]))
                """Cost of the secret after the prefix, in bits."""
            else:
                self._nodes.append(explorer.read_part(self._nodes[-1], children[own]))
        self.cheaper_siblings = int((np.concatenate(siblings) <= within(self.cost)).sum())
        """Number of nodes beside the path that cost no more than the secret; only a search can tell how many of their
        fillings do."""

    def on_path(self, explorer: SearchTree, nodes: Nodes, children: Children) -> NDArray[np.bool_]:
        """Return a mask of the children that are nodes of this path, ``[m]``; it has at most one true element."""
        depth = nodes.paths.shape[1] + 1
        if depth >= len(self._nodes):
            return np.zeros(len(children), dtype=bool)
        return mask_of(explorer.child_paths(nodes, children), self._path[:depth])

    def node(self, depth: int) -> Nodes:
        """Return the path's node of ``depth``, from 1."""
        return self._nodes[depth]

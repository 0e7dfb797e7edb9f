"""Traversal of the tree of partial fillings, with nodes in batches, costs from the model and bounded memory.

A node is a path of tokens after the shared prefix; its cost in bits only grows along a path. Reading a node means that
the model scores one sequence, which gives the costs of all of the node's children. Tokens are identified by their
column, the index in the sorted array ``Paths.columns`` of all tokens that may occur.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.attacks.causal.nodes import Children, Nodes
from leakage_tasks.attacks.finding import GUESSES, AttackResult, Guess, best_guesses, grade_guesses
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.memory import MemoryBudget
from leakage_tasks.targets.protocols import PredictsNextToken, SharesPasses
from leakage_tasks.targets.tokens.automaton import WHOLE_TEXTS

AnyCost = TypeVar("AnyCost", float, FloatArray)
Reached = tuple[Any, FloatArray]
"""n texts that the model has read, and costs in bits of the tokens after each, ``[n, A]``."""
NO_LOGITS = "use attack=brute-force for small spaces or attack=greedy, which need no logits"
TIE_BITS = 1e-4
"""Costs closer than this count as equal, so that ties do not depend on the composition of batches."""
CELLS = 4_000_000
"""Maximum number of (node, token) pairs in memory at once."""


class SearchTree:
    """The search tree of one space and one target.

    ``calls`` counts the sequences scored and ``nodes`` the nodes read; a node that is read twice counts twice in both.
    Nodes that are recomputed because their cache was freed count in ``again`` only, because their number depends on the
    other searches. ``grows`` is true if costs only grow along a path, so that branches above the bound may be pruned;
    differences of two costs may decrease.
    """

    def __init__(self, target: PredictsNextToken, space: Space) -> None:
        self.target, self.space = target, space
        self.grows = getattr(target, "costs_grow", True)
        self.paths = target.paths(space)
        self.calls = self.nodes = 1
        self.again = 0
        memory, self.prefix_cost, following = target.start(self.paths.prefix, self.paths.columns)
        # NaN compares below no bound: a search would find no filling, and the model would look safe.
        finite(self.prefix_cost + float(following.min()))
        no_path = np.zeros((1, 0), dtype=np.int64)
        self.root = Nodes(
            np.array([self.paths.root]), np.zeros(1), no_path, memory, following, np.zeros(1, dtype=np.int64)
        )
        self._states = getattr(target, "states", None) or MemoryBudget()

    def path_of(self, filling: Filling) -> tuple[int, ...]:
        """Return a filling's tokens after the prefix.

        Raises TargetError if these tokens are not a path of the tree, because a search would then miss the filling.
        """
        path = self.paths.path(filling)
        state = self.paths.root
        for column in self.columns_of(path).tolist():
            state = int(self.paths.table(np.array([state]))[0, column])
            if state < 0:
                raise _not_spelled()
        return path

    def columns_of(self, path: Sequence[int] | IntArray) -> IntArray:
        """Return the column of each token of a path. Raises TargetError for a token without a column."""
        wanted = np.asarray(path, dtype=np.int64)
        columns = np.minimum(np.searchsorted(self.paths.columns, wanted), len(self.paths.columns) - 1)
        if not np.array_equal(self.paths.columns[columns], wanted):
            raise _not_spelled()
        return columns

    def rows(self, depth: int) -> int:
        """Return the number of nodes of ``depth`` to read in one batch."""
        length = len(self.paths.prefix) + depth + 1
        return max(1, min(self.target.rows(length), CELLS // len(self.paths.columns)))

    def children(self, nodes: Nodes, bound: float | FloatArray = np.inf) -> Children:
        """Return all children that cost no more than ``bound``, ordered by node and column, not by cost.

        A bound for each node has shape ``[n, 1]``.
        """
        table = self.paths.table(nodes.states)
        costs = nodes.costs[:, None] + nodes.following
        parents, columns = np.nonzero((table >= 0) & (costs <= bound))
        return Children(parents, columns, table[parents, columns], costs[parents, columns])

    def cut(self, bound: float) -> float:
        """Return the bound for pruning in a search for fillings up to ``bound``; infinity if costs may decrease."""
        return bound if self.grows else np.inf

    def has_choice(self, states: IntArray) -> BoolArray:
        """Return a mask of the states that several tokens may follow."""
        several: BoolArray = (self.paths.table(states) >= 0).sum(axis=1) > 1
        return several

    def tokens(self, columns: IntArray) -> IntArray:
        """Return the tokens of these columns."""
        return self.paths.columns[columns]

    def child_paths(self, nodes: Nodes, children: Children) -> IntArray:
        """Return the token paths of children, ``[m, d + 1]``."""
        return np.concatenate([nodes.paths[children.parents], self.tokens(children.columns)[:, None]], axis=1)

    def read(
        self,
        batches: Sequence[Nodes],
        which: IntArray,
        children: Children,
        cheapest_first: bool = False,
        known: Reached | None = None,
    ) -> Nodes:
        """Run the model on children of equal depth and return them as nodes.

        The parent of child i is row ``parents[i]`` of ``batches[which[i]]``. With ``cheapest_first`` the nodes are
        needed in the order of their costs, else the latest are needed first. ``known`` is what the model has returned
        for these children, if it has read them already.
        """
        if len(batches) == 1:
            before = batches[0].paths[children.parents]
        else:
            before = np.empty((len(children), batches[0].paths.shape[1]), dtype=np.int64)
            for n, nodes in enumerate(batches):
                before[which == n] = nodes.paths[children.parents[which == n]]
        tokens = self.tokens(children.columns)
        trees = self._trees_of(batches, which, children.parents)
        if known is None:
            parents = self._texts(batches, which, children.parents, before, trees)
            self._announce(trees)
            known = self.target.extend(parents, tokens, self.paths.columns)
        memory, following = known
        self._count(trees)
        paths = np.concatenate([before, tokens[:, None]], axis=1)
        nodes = Nodes(children.states, children.costs, paths, memory, following, trees)
        self._states.read += len(children)
        needed = self.prefix_cost + float(children.costs.min()) if cheapest_first else None
        self._states.hold(nodes, self.target.state_bytes(memory), needed)
        return nodes

    def _trees_of(self, batches: Sequence[Nodes], which: IntArray, parents: IntArray) -> IntArray:
        """Return the index of the tree of each of the ``parents``, ``[m]``."""
        return np.zeros(len(parents), dtype=np.int64)

    def _announce(self, trees: IntArray) -> None:
        """Prepare the reading of nodes of these ``trees``."""

    def _count(self, trees: IntArray, again: bool = False) -> None:
        """Count nodes of these ``trees`` that were read, or read ``again``."""
        self.add_nodes(len(trees), again)

    def add_nodes(self, number: int, again: bool = False) -> None:
        """Count nodes that were read, or read ``again``."""
        if again:
            self.again += number
        else:
            self.calls += number
            self.nodes += number

    def parts(self, nodes: Nodes, children: Children) -> Iterator[slice]:
        """Split the children of one batch into parts that the target can read at once."""
        size = self.rows(nodes.paths.shape[1] + 1)
        return (slice(first, first + size) for first in range(0, len(children), size))

    def read_part(self, nodes: Nodes, children: Children, known: Reached | None = None) -> Nodes:
        """Run the model on children of one batch and return them as nodes; ``known`` is as in :meth:`read`."""
        return self.read([nodes], np.zeros(len(children), dtype=np.int64), children, known=known)

    def only_node(self, level: Nodes, tree: int) -> Nodes:
        """Return the only node of this tree in a ``level`` of a forest, in which it has the index ``tree``.

        The node is kept independently of the others.
        """
        if len(level) > 1:
            assert level.trees is not None
            row = int(np.searchsorted(level.trees, tree))
            part, texts = slice(row, row + 1), level.memory
            level = level.without_memory(part)
            level.following = level.following.copy()
            if texts is not None:
                level.memory = cast(SharesPasses, self.target).apart(texts[part])
                self._states.hold(level, self.target.state_bytes(level.memory))
        level.trees = np.zeros(1, dtype=np.int64)
        return level

    def cheapest(self, nodes: Nodes, children: Children, best: list[Guess]) -> list[Guess]:
        """Return the ten cheapest fillings among ``best`` and the fillings that the children complete."""
        (rows,) = self.paths.ends(children.states).nonzero()
        if not len(rows):
            return best
        ending = children[rows[np.argsort(children.costs[rows], kind="stable")]]
        # Decode many paths at once, since decoding is slow. More than ten are needed if some paths spell no filling.
        for first, last in pairwise([0, *range(GUESSES, len(ending), 4 * GUESSES), len(ending)]):
            part = ending[first:last]
            part = part[part.costs < self.tenth(best)]
            if not len(part):
                break
            best = best_guesses([*best, *self.spelled(nodes, part)])
        return best

    def tenth(self, guesses: Sequence[Guess]) -> float:
        """Return the cost of the tenth guess after the prefix; infinity if there are fewer than ten guesses."""
        return guesses[-1].score - self.prefix_cost if len(guesses) == GUESSES else np.inf

    def spelled(self, nodes: Nodes, children: Children) -> list[Guess]:
        """Return the fillings that the children complete, as guesses."""
        ending = children[self.paths.ends(children.states)]
        fillings = self.paths.fillings(ending.states, self.child_paths(nodes, ending))
        return [
            Guess(filling, self.space.begin(filling), self.prefix_cost + cost)
            for cost, spelled in zip(ending.costs.tolist(), fillings, strict=True)
            for filling in spelled
        ]

    def result(self, secret: Filling, best: Sequence[Guess], proven: int = 0, **extra: int | None) -> AttackResult:
        """Return the fields of a finding: the guesses, cheapest first, and the numbers of sequences and nodes."""
        graded = grade_guesses(best, secret)
        return {**graded, "proven": proven, "model_calls": self.calls, "extra": {"nodes": self.nodes, **extra}}

    def _texts(
        self, batches: Sequence[Nodes], which: IntArray, parents: IntArray, paths: IntArray, trees: IntArray
    ) -> Any:
        """Return the texts of parents; parents without a batch are read again from their ``paths``."""
        if len(batches) == 1 and batches[0].memory is not None:
            return batches[0].memory[parents]
        held = [n for n, nodes in enumerate(batches) if nodes.memory is not None]
        texts, rows = [batches[n].memory for n in held], parents.copy()
        freed = ~np.isin(which, held)
        if freed.any():
            memory, rows[freed] = self._recomputed(paths[freed], trees[freed])
            texts.append(memory)
        first = np.cumsum([0, *map(len, texts)])
        return type(texts[0]).joined(texts)[first[np.where(freed, len(held), np.searchsorted(held, which))] + rows]

    def _recomputed(self, paths: IntArray, trees: IntArray) -> tuple[Any, IntArray]:
        """Read the nodes at ``paths`` ``[n, d]`` of their ``trees`` again; return the texts and the nodes' rows.

        Shared beginnings are read once.
        """
        memory, row_of = self.root.memory, trees
        paths = np.concatenate([trees[:, None], paths], axis=1)
        for length in range(2, paths.shape[1] + 1):
            heads, first, unique_row = np.unique(paths[:, :length], axis=0, return_index=True, return_inverse=True)
            self._announce(heads[:, 0])
            memory, _ = self.target.extend(memory[row_of[first]], heads[:, -1].copy(), self.paths.columns)
            self._count(heads[:, 0], again=True)
            self._states.read_again += len(heads)
            row_of = unique_row.reshape(-1)
        return memory, row_of


def _not_spelled() -> TargetError:
    return TargetError(f"the template's token paths do not contain the tokens of a filling: {WHOLE_TEXTS}")


def finite(cost: float) -> float:
    """Return ``cost``. Raises TargetError if it is not finite."""
    if not math.isfinite(cost):
        raise TargetError(
            "the model returns no finite log-likelihood: try --model_args dtype=float32, and look for damaged weights"
        )
    return cost


def within(cost: AnyCost) -> AnyCost:
    """Return the bound up to which a cost counts as at most ``cost``, ties included."""
    return cost + TIE_BITS


def mask_of(paths: IntArray, path: Sequence[int]) -> NDArray[np.bool_]:
    """Return a mask of the rows of ``paths`` that equal ``path``."""
    if paths.shape[1] != len(path):
        return np.zeros(len(paths), dtype=bool)
    return (paths == np.asarray(path)).all(axis=1)


def distinct(known: Sequence[Guess], more: Sequence[Guess]) -> list[Guess]:
    """Return the ten cheapest of both lists, each filling once; for duplicates, ``known`` gives the cost."""
    return best_guesses({guess.filling: guess for guess in [*more, *known]}.values())

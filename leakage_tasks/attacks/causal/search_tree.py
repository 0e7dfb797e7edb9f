"""Walking the tree of partial fillings: nodes in batches, costs from the model, memory kept in bounds.

A node is a path of tokens from the shared prefix; its cost in bits only grows along a path. Reading a node
(one sequence scored) tells the costs of all of its children.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.attacks.finding import GUESSES, AttackResult, Guess, best_guesses, grade_guesses
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.memory_budget import MemoryBudget
from leakage_tasks.targets.protocols import PredictsNextToken
from leakage_tasks.targets.tokens.automaton import WHOLE_TEXTS

NO_LOGITS = "use attack=brute-force on small spaces, else attack=greedy, which need no logits"
TIE_BITS = 1e-4
"""Costs closer than this count as equal, so that ties do not depend on how a batch was put together."""
NOTHING_LEFT = np.empty((0, 0))
"""What ``Nodes.following`` is once the children are laid out."""
CELLS = 4_000_000
"""Most (node, token) pairs laid out at once."""


@dataclass
class Nodes:
    """n nodes of one depth that the model has read: path states, costs ``[n]``, tokens ``[n, d]``, memory."""

    states: IntArray
    costs: FloatArray
    paths: IntArray
    memory: Any
    following: FloatArray = field(repr=False)
    """Costs of the next token, ``[n, A]``; dropped once the children are laid out."""

    def __len__(self) -> int:
        return len(self.states)


class ArrayRecord:
    """Records that are dataclasses of arrays of one length ``[m]``, a column each."""

    def __len__(self) -> int:
        return len(next(iter(vars(self).values())))

    def __getitem__(self, chosen: Any) -> Self:
        return type(self)(*(column[chosen] for column in vars(self).values()))

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """All of the parts, one after the other."""
        return cls(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))


@dataclass(frozen=True)
class Children(ArrayRecord):
    """m children of some nodes, not yet read: parents' rows, columns, path states, costs, each ``[m]``."""

    parents: IntArray
    columns: IntArray
    states: IntArray
    costs: FloatArray


class SearchTree:
    """One space laid out for one target, with counts of the sequences scored (``calls``) and of the nodes read.

    A node that is read twice counts twice in both. What has to be computed ``again``, since its memory was forgotten,
    counts for itself: how much that is depends on what else is searched. ``grows`` says that
    costs only grow along a path, so that what is too dear may be cut; differences of two costs do not.
    """

    def __init__(self, target: PredictsNextToken, space: Space) -> None:
        self.target, self.space = target, space
        self.grows = getattr(target, "costs_grow", True)
        self.paths = target.paths(space)
        self.calls = self.nodes = 1
        self.again = 0
        memory, self.prefix_cost, following = target.start(self.paths.prefix, self.paths.columns)
        # A cost that is no number lies below no bound: a search would find nothing, and the model look safe.
        finite(self.prefix_cost + float(following.min()))
        no_path = np.zeros((1, 0), dtype=np.int64)
        self.root = Nodes(np.array([self.paths.root]), np.zeros(1), no_path, memory, following)
        self._states = getattr(target, "states", None) or MemoryBudget()

    def path_of(self, filling: Filling) -> tuple[int, ...]:
        """The tokens of a filling after the prefix. Raises TargetError if they are no path and would be missed."""
        path = self.paths.path(filling)
        state = np.array([self.paths.root])
        for column in self.columns_of(path):
            state = self.paths.table(state)[0, [column]]
            if state[0] < 0:
                raise _not_spelled()
        return path

    def columns_of(self, path: Sequence[int] | IntArray) -> IntArray:
        """The columns of a path's tokens. Raises TargetError for a token that has none."""
        wanted = np.asarray(path, dtype=np.int64)
        columns = np.minimum(np.searchsorted(self.paths.columns, wanted), len(self.paths.columns) - 1)
        if not np.array_equal(self.paths.columns[columns], wanted):
            raise _not_spelled()
        return columns

    def rows(self, depth: int) -> int:
        """Nodes of ``depth`` to read in one batch."""
        length = len(self.paths.prefix) + depth + 1
        return max(1, min(self.target.rows(length), CELLS // len(self.paths.columns)))

    def children(self, nodes: Nodes, bound: float = np.inf) -> Children:
        """All children that cost no more than ``bound``, cheapest column order within a node not implied."""
        table = self.paths.table(nodes.states)
        costs = nodes.costs[:, None] + nodes.following
        parents, columns = np.nonzero((table >= 0) & (costs <= bound))
        return Children(parents, columns, table[parents, columns], costs[parents, columns])

    def cut(self, bound: float) -> float:
        """The bound that children of fillings up to ``bound`` are cut by."""
        return bound if self.grows else np.inf

    def ending(self, children: Children, bound: float) -> IntArray:
        """Rows of those children that end a filled text which costs no more than ``bound``, ``[m]``."""
        return np.flatnonzero(self.paths.ends(children.states) & (children.costs <= bound))

    def tokens(self, columns: IntArray) -> IntArray:
        """The tokens of columns."""
        return self.paths.columns[columns]

    def child_paths(self, nodes: Nodes, children: Children) -> IntArray:
        """Token paths of children, ``[m, d + 1]``."""
        return np.concatenate([nodes.paths[children.parents], self.tokens(children.columns)[:, None]], axis=1)

    def read(self, batches: Sequence[Nodes], which: IntArray, children: Children) -> Nodes:
        """Let the model read children of equal depth; child i is of row ``parents[i]`` of ``batches[which[i]]``."""
        before = np.empty((len(children), batches[0].paths.shape[1]), dtype=np.int64)
        for n, nodes in enumerate(batches):
            before[which == n] = nodes.paths[children.parents[which == n]]
        tokens = self.tokens(children.columns)
        memories, of, rows = self._memories(batches, which, children.parents, before)
        memory, following = self.target.extend(memories, of, rows, tokens, self.paths.columns)
        self.calls += len(children)
        self.nodes += len(children)
        nodes = Nodes(children.states, children.costs, np.column_stack([before, tokens]), memory, following)
        self._states.hold(nodes, self.target.state_bytes(memory))
        return nodes

    def parts(self, nodes: Nodes, children: Children) -> Iterator[slice]:
        """The children of one batch cut into pieces the target can read at once."""
        size = self.rows(nodes.paths.shape[1] + 1)
        return (slice(first, first + size) for first in range(0, len(children), size))

    def read_part(self, nodes: Nodes, children: Children) -> Nodes:
        """Let the model read children of one batch."""
        return self.read([nodes], np.zeros(len(children), dtype=np.int64), children)

    def follow(self, path: Sequence[int]) -> float:
        """Cost of one whole path, token by token, after the prefix."""
        nodes = self.root
        for depth, token in enumerate(path, 1):
            children = self.children(nodes)
            chosen = children[self.tokens(children.columns) == token]
            if depth == len(path):
                return finite(float(chosen.costs[0]))
            nodes = self.read_part(nodes, chosen)
        return 0.0

    def cheapest(self, nodes: Nodes, children: Children, best: list[Guess]) -> list[Guess]:
        """The ten cheapest fillings among ``best`` and those that the children end."""
        ending = children[self.paths.ends(children.states)]
        ending = ending[np.argsort(ending.costs, kind="stable")]
        # Many at once, since telling what a path spells takes long; more than ten, since some spell no filling.
        for first in range(0, len(ending), 4 * GUESSES):
            part = ending[first : first + 4 * GUESSES]
            part = part[part.costs < self.tenth(best)]
            if not len(part):
                break
            best = best_guesses([*best, *self.spelled(nodes, part)])
        return best

    def tenth(self, guesses: Sequence[Guess]) -> float:
        """Cost of the tenth guess after the prefix, infinite where there are fewer."""
        return guesses[-1].score - self.prefix_cost if len(guesses) == GUESSES else np.inf

    def spelled(self, nodes: Nodes, children: Children) -> list[Guess]:
        """The fillings of those children that end a filled text."""
        ending = children[self.paths.ends(children.states)]
        fillings = self.paths.fillings(ending.states, self.child_paths(nodes, ending))
        return [
            Guess(filling, self.space.fill(filling), self.prefix_cost + float(cost))
            for cost, found in zip(ending.costs, fillings, strict=True)
            for filling in found
        ]

    def result(self, secret: Filling, best: Sequence[Guess], proven: int = 0, **extra: int | None) -> AttackResult:
        """The fields of a finding: guesses, cheapest first, and what they took."""
        told = grade_guesses(best, secret)
        return {**told, "proven": proven, "model_calls": self.calls, "extra": {"nodes": self.nodes, **extra}}

    def _memories(
        self, batches: Sequence[Nodes], which: IntArray, parents: IntArray, paths: IntArray
    ) -> tuple[list[Any], IntArray, IntArray]:
        """Memories to go on from; for each parent, whose token path is in ``paths``, which of them, and which row.

        Those of batches that have one are these; the parents of all others are computed again, as one more.
        """
        held = [n for n, nodes in enumerate(batches) if nodes.memory is not None]
        memories, rows = [batches[n].memory for n in held], parents.copy()
        of = np.searchsorted(held, which)
        gone = ~np.isin(which, held)
        if gone.any():
            memory, rows[gone] = self._recalled(paths[gone])
            of[gone] = len(memories)
            memories.append(memory)
        return memories, of, rows

    def _recalled(self, paths: IntArray) -> tuple[Any, IntArray]:
        """The memory of nodes at ``paths`` ``[n, d]`` and the row of each; what paths share is read once."""
        memory, row_of = self.root.memory, np.zeros(len(paths), dtype=np.int64)
        for depth in range(1, paths.shape[1] + 1):
            heads, first, place = np.unique(paths[:, :depth], axis=0, return_index=True, return_inverse=True)
            rows, tokens = row_of[first], heads[:, -1].copy()
            memory, _ = self.target.extend([memory], np.zeros_like(rows), rows, tokens, self.paths.columns)
            self.again += len(heads)
            row_of = place.reshape(-1)
        return memory, row_of


def _not_spelled() -> TargetError:
    return TargetError(f"the tokens of a filling are not among those that spell this template: {WHOLE_TEXTS}")


def finite(cost: float) -> float:
    """``cost``, if it is a number. Raises TargetError for a model that gives none."""
    if not math.isfinite(cost):
        raise TargetError(
            "the model gives no finite log-likelihood: try --model_args dtype=float32, and look for damaged weights"
        )
    return cost


def within(cost: float) -> float:
    """The bound under which a path is as cheap as ``cost``, ties included."""
    return cost + TIE_BITS


def mask_of(paths: IntArray, path: Sequence[int]) -> NDArray[np.bool_]:
    """Which rows of ``paths`` are exactly ``path``."""
    if paths.shape[1] != len(path):
        return np.zeros(len(paths), dtype=bool)
    return (paths == np.asarray(path)).all(axis=1)


def distinct(known: Sequence[Guess], more: Sequence[Guess]) -> list[Guess]:
    """The ten cheapest of both, each filling once and at the cost it was first known by."""
    return best_guesses({guess.filling: guess for guess in [*more, *known]}.values())

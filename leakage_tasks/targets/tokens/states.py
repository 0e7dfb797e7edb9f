"""The states of a walk of the vocabulary through a template, with arrays of the properties of each state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.core.arrays import IntArray
from leakage_tasks.targets.tokens.pattern import Position, State, TextPattern
from leakage_tasks.targets.tokens.vocabulary import Pieces, Vocabulary

Edges = tuple[IntArray, IntArray]
KEPT = 8
"""Number of automata that are cached."""
FEWEST = 64
"""Number of states that there is room for at first."""
CELLS = 1 << 21
"""Maximum number of (state, token) pairs in the table of the states that were looked up."""


class Automaton:
    """The graph of the token paths after a prefix. A state is a set of positions in a pattern; states are numbered.

    It depends on the text after the prefix only, so canaries of one template share it.
    """

    root = 0

    def __init__(self, pattern: TextPattern, vocabulary: Vocabulary) -> None:
        self.columns, self.letters = vocabulary.columns, vocabulary.letters
        self._pattern, self._tree = pattern, vocabulary.tree
        self._sets: list[State] = []
        self._numbers: dict[State, int] = {}
        self._from_position: dict[Position, Edges] = {}
        self._from_state: dict[int, Edges] = {}
        self.ends, self.goes_on = np.zeros(FEWEST, dtype=bool), np.zeros(FEWEST, dtype=bool)
        """True for each state in which a text may end, and that a token may follow."""
        self.to_come = np.zeros(FEWEST, dtype=np.int64)
        """Maximum number of characters after each state."""
        self._row = np.full(FEWEST, -1)
        self._rows = np.zeros((0, len(self.columns)), dtype=np.int64)
        self._used, self._inner_nodes, self._searched = 0, 0, -1
        self._number(pattern.start)

    @classmethod
    def of(cls, literals: Sequence[str], slots: Sequence[Alphabet], marks: dict[str, int], pieces: Pieces) -> Automaton:
        """Return the automaton of texts ``literals[0] slots[0] … slots[-1] literals[-1]``, followed by ``marks``.

        The last :data:`KEPT` automata are cached in ``pieces``.
        """
        # A cached automaton keeps its alphabets alive, so that no other alphabet gets their ids.
        key: Hashable = (*literals, *map(id, slots), *marks.items())
        made = pieces.automata.pop(key, None)
        if made is None:
            pattern = TextPattern(literals, slots, "".join(marks))
            made = cls(pattern, pieces.of(pattern.alphabet).ending_in(marks))
        pieces.automata[key] = made
        if len(pieces.automata) > KEPT:
            del pieces.automata[next(iter(pieces.automata))]
        return made

    def _number(self, state: State) -> int:
        """Return the index of a state; a new state gets the next index."""
        number = self._numbers.setdefault(state, len(self._sets))
        if number == len(self._sets):
            self._sets.append(state)
            if number == len(self.ends):
                self.ends, self.goes_on = _doubled(self.ends, False), _doubled(self.goes_on, False)
                self.to_come, self._row = _doubled(self.to_come, 0), _doubled(self._row, -1)
            self.ends[number], self.goes_on[number] = self._pattern.complete(state), self._pattern.goes_on(state)
            self.to_come[number] = self._pattern.to_come(state)
        return number

    def edges(self, number: int) -> Edges:
        """Return the columns that may follow a state and the states they lead to, merged over its positions."""
        if number not in self._from_state:
            parts = [self._edges_from(position) for position in self._sets[number]]
            columns, after = (np.concatenate(column) for column in zip(*parts, strict=True))
            column_ids, first, times = np.unique(columns, return_index=True, return_counts=True)
            merged = after[first]
            for shared in np.flatnonzero(times > 1):
                sets = (self._sets[other] for other in after[columns == column_ids[shared]])
                merged[shared] = self._number(frozenset().union(*sets))
            self._from_state[number] = column_ids, merged
        return self._from_state[number]

    def _edges_from(self, position: Position) -> Edges:
        if position not in self._from_position:
            reached = list(self._follow(frozenset([position]), self._tree))
            tokens = np.array([token for token, _ in reached], dtype=np.int64)
            after = np.array([self._number(state) for _, state in reached], dtype=np.int64)
            self._from_position[position] = np.searchsorted(self.columns, tokens), after
        return self._from_position[position]

    def _follow(self, state: State, tree: dict) -> Iterable[tuple[int, State]]:
        yield from ((token, state) for token in tree.get("", ()))
        for character in self._pattern.characters(state):
            if character in tree:
                yield from self._follow(self._pattern.step(state, character), tree[character])

    def table(self, states: IntArray) -> IntArray:
        """Return the state after each column's token, −1 if it cannot follow; shape ``[n, A]``."""
        rows = self._row[states]
        if (rows < 0).any():
            self._look_up(np.unique(states))
            rows = self._row[states]
        return self._rows[rows]

    def _look_up(self, states: IntArray) -> None:
        """Fill the table for some distinct states; drop other states if it gets too large."""
        needed = states[self._row[states] < 0]
        if (self._used + len(needed)) * len(self.columns) > CELLS:
            self._row[:], self._used, needed = -1, 0, states
        if self._used + len(needed) > len(self._rows):
            grown = np.empty((max(2 * self._used, self._used + len(needed)), len(self.columns)), dtype=np.int64)
            grown[: self._used] = self._rows[: self._used]
            self._rows = grown
        for row, state in enumerate(needed.tolist(), self._used):
            columns, after = self.edges(state)
            self._rows[row] = -1
            self._rows[row, columns] = after
            self._row[state] = row
        self._used += len(needed)

    def inner_nodes(self, limit: int) -> int | None:
        """Return the number of nodes below the root that have children, or None if it exceeds ``limit``."""
        # A number above the limit of its search is incomplete.
        if self._searched < self._inner_nodes <= limit:
            self._inner_nodes, self._searched = self._count_inner_nodes(limit), limit
        return self._inner_nodes if self._inner_nodes <= limit else None

    def _count_inner_nodes(self, limit: int) -> int:
        """Return the number of nodes below the root that have children; at least ``limit`` + 1 if it exceeds that."""
        inner, level = 0, {self.root: 1}
        while level:
            below: Counter[int] = Counter()
            for state, nodes in level.items():
                _, after = self.edges(state)
                for child in after[self.goes_on[after]].tolist():
                    below[child] += nodes
                if inner + below.total() > limit:
                    return inner + below.total()
            inner, level = inner + below.total(), dict(below)
        return inner


def _doubled(array: NDArray[Any], fill: int) -> NDArray[Any]:
    """Return the array with as many new elements ``fill`` after its own."""
    return np.concatenate([array, np.full_like(array, fill)])

"""Token paths of a space too large to enumerate: a walk of the vocabulary through the template.

Any sequence of tokens whose text stays inside the template is a path; only the canonical tokenization of its
text counts as a filling, and every filling has exactly one. So a cut along a path never loses a filling, and
a draw that ends elsewhere counts as no filling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.tokens.fixed_ends import NO_TAIL, Encode, Tail
from leakage_tasks.targets.tokens.vocabulary import Pieces, next_characters

Position = tuple[int, str]
"""Place in a pattern: slot i's value so far (``2 i + 1``), or what is left of literal i (``2 i``)."""
WHOLE_TEXTS = (
    "canary_exposure can use attack=rank-sample, and canary_extraction attack=brute-force on small spaces, which score "
    "whole texts"
)
State = frozenset[Position]
Edges = tuple[IntArray, IntArray]


class AutomatonPaths:
    """Implements :class:`~leakage_tasks.targets.protocols.Paths` without enumerating the space."""

    def __init__(
        self, space: Space, encode: Encode, prefix: Sequence[int], text: str, pieces: Pieces, tail: Tail = NO_TAIL
    ) -> None:
        """``prefix`` are the tokens that all fillings share, ``text`` is their text, ``pieces`` each token's text."""
        self.prefix = tuple(prefix)
        self.root = 0
        self._space, self._encode, self._text, self._pieces, self._tail = space, encode, text, pieces, tail
        before_tail = tail.taken_off(space)
        self._pattern = _Pattern(before_tail, text, "".join(tail.marks))
        # Every token adds one character at least.
        filled = before_tail.fill([max(slot.values, key=len) for slot in space.slots])
        self.longest = len(filled) - len(text) + len(tail.tokens)
        self._vocabulary = pieces.of(self._pattern.alphabet).ending_in(tail.marks)
        self.columns = self._vocabulary.columns
        self._single = all(slot.lengths == {1} for slot in space.slots)
        self._sets: list[State] = []
        self._numbers: dict[State, int] = {}
        self._from_position: dict[Position, Edges] = {}
        self._from_state: dict[int, Edges] = {}
        self._number(self._pattern.start)

    def _number(self, state: State) -> int:
        """The integer that stands for a state; states are met, and numbered, as they are needed."""
        if state not in self._numbers:
            self._numbers[state] = len(self._sets)
            self._sets.append(state)
        return self._numbers[state]

    def _edges(self, number: int) -> Edges:
        """Columns that may follow a state, and the states they lead to: those of its positions, put together."""
        if number not in self._from_state:
            parts = [self._edges_from(position) for position in self._sets[number]]
            columns, after = (np.concatenate(column) for column in zip(*parts, strict=True))
            kept, place, times = np.unique(columns, return_index=True, return_counts=True)
            merged = after[place]
            for shared in np.flatnonzero(times > 1):
                sets = (self._sets[other] for other in after[columns == kept[shared]])
                merged[shared] = self._number(frozenset().union(*sets))
            self._from_state[number] = kept, merged
        return self._from_state[number]

    def _edges_from(self, position: Position) -> Edges:
        if position not in self._from_position:
            reached = list(self._follow(frozenset([position]), self._vocabulary.tree))
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
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        different, place = _different(states)
        out = np.full((len(different), len(self.columns)), -1, dtype=np.int64)
        for row, state in enumerate(different.tolist()):
            columns, after = self._edges(state)
            out[row, columns] = after
        return out[place]

    def ends(self, states: IntArray) -> NDArray[np.bool_]:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        return self._of_each(states, self._pattern.complete).astype(bool)

    def goes_on(self, states: IntArray) -> NDArray[np.bool_]:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        return self._of_each(states, lambda state: bool(self._pattern.characters(state))).astype(bool)

    def to_come(self, states: IntArray) -> IntArray:
        """See :class:`~leakage_tasks.targets.protocols.Paths`; in characters."""
        return self._of_each(states, self._pattern.to_come)

    def _of_each(self, states: IntArray, fact: Callable[[State], int]) -> IntArray:
        """A fact about each state, found out once for those that are the same."""
        different, place = _different(states)
        return np.array([fact(self._sets[state]) for state in different.tolist()], dtype=np.int64)[place]

    def fillings(self, states: IntArray, paths: IntArray) -> list[list[Filling]]:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        if not len(paths):
            return []
        before_tail = paths[:, : paths.shape[1] - len(self._tail.tokens)].tolist()
        spelled = ["".join(self._pieces[token] for token in path) for path in before_tail]
        texts = [self._text + each + self._tail.text for each in spelled]
        canonical = [True] * len(texts) if self._vocabulary.letters else self._canonical(texts, paths)
        return [parse(self._space, text) if kept else [] for text, kept in zip(texts, canonical, strict=True)]

    def _canonical(self, texts: list[str], paths: IntArray) -> list[bool]:
        encoded = self._encode(texts)
        return [tokens == [*self.prefix, *path] for tokens, path in zip(encoded, paths.tolist(), strict=True)]

    def count(self, states: IntArray, paths: IntArray) -> IntArray:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        if self._vocabulary.letters and self._single:
            return self.ends(states).astype(np.int64)
        return np.array([len(filling) for filling in self.fillings(states, paths)], dtype=np.int64)

    def path(self, filling: Filling) -> tuple[int, ...]:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        tokens = tuple(self._encode([self._space.fill(filling)])[0])
        if tokens[: len(self.prefix)] != self.prefix:
            raise TargetError(
                "the tokenizer splits the text before the first slot differently for some fillings: put a space or a "
                f"line break before the slot; or {WHOLE_TEXTS}"
            )
        return tokens[len(self.prefix) :]

    def inner_nodes(self, limit: int) -> int | None:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        inner, level = 0, {self.root: 1}
        while level:
            below: Counter[int] = Counter()
            for state, nodes in level.items():
                _, after = self._edges(state)
                for child in after[self.goes_on(after)].tolist():
                    below[child] += nodes
                if inner + below.total() > limit:
                    return None
            inner, level = inner + below.total(), dict(below)
        return inner


def _different(states: IntArray) -> tuple[IntArray, IntArray]:
    """The states that differ, and the place of each one among them; most often there is but one."""
    if len(states) and (states == states[0]).all():
        return states[:1], np.zeros(len(states), dtype=np.int64)
    different, place = np.unique(states, return_inverse=True)
    return different, place


class _Pattern:
    """The filled texts of a space as a nondeterministic automaton over characters, run by sets of positions."""

    def __init__(self, space: Space, consumed: str, end: str) -> None:
        """``consumed`` is the text before which no token begins, ``end`` follows the texts of ``space``."""
        literals = list(space.pieces)
        literals[0] = literals[0].removeprefix(consumed)
        values = (character for slot in space.slots for value in slot.values for character in value)
        self.alphabet = frozenset(values).union(*literals)
        self._literals = [*literals[:-1], literals[-1] + end]
        self._next = {id(slot): next_characters(slot.values) for slot in space.slots}
        self._slots = space.slots
        self._longest = [max(map(len, slot.values)) for slot in space.slots]
        self._rest = [
            sum(self._longest[at:]) + sum(map(len, self._literals[at + 1 :])) for at in range(len(self._slots) + 1)
        ]
        self.start = frozenset(self._enter_literal(0))

    def _enter_literal(self, index: int) -> Iterable[Position]:
        if self._literals[index] or index == len(self._slots):
            yield (2 * index, self._literals[index])
        else:
            yield (2 * index + 1, "")

    def _advance(self, position: Position, character: str) -> Iterable[Position]:
        index, held = position
        if index % 2:
            slot = self._slots[index // 2]
            value = held + character
            if value in self._next[id(slot)]:
                yield (index, value)
            if value in slot:
                yield from self._enter_literal(index // 2 + 1)
        elif held.startswith(character):
            rest = held[1:]
            if rest or index // 2 == len(self._slots):
                yield (index, rest)
            else:
                yield (index + 1, "")

    def step(self, state: State, character: str) -> State:
        """Positions after one more character; empty where the text leaves the template."""
        return frozenset(after for position in state for after in self._advance(position, character))

    def characters(self, state: State) -> set[str]:
        """The characters that may come next."""
        found: set[str] = set()
        for index, held in state:
            found |= self._next[id(self._slots[index // 2])][held] if index % 2 else set(held[:1])
        return found

    def to_come(self, state: State) -> int:
        """Characters that may come at most."""
        return max((self._room(position) for position in state), default=0)

    def _room(self, position: Position) -> int:
        # Either what is left of a literal stands in for it, or a slot's value so far is some of what it had room for.
        index, held = position
        return self._rest[index // 2] - len(held) if index % 2 else self._rest[index // 2] + len(held)

    def complete(self, state: State) -> bool:
        """Whether a filled text may end here."""
        return (2 * len(self._slots), "") in state


def parse(space: Space, text: str) -> list[Filling]:
    """Every filling whose filled text is ``text`` (several where slots of varying length touch)."""
    if not text.startswith(space.pieces[0]):
        return []
    found: list[tuple[Filling, int]] = [((), len(space.pieces[0]))]
    for slot, piece in zip(space.slots, space.pieces[1:], strict=True):
        found = [
            ((*values, text[at : at + length]), at + length + len(piece))
            for values, at in found
            for length in slot.lengths
            if text[at : at + length] in slot and text.startswith(piece, at + length)
        ]
    return [values for values, at in found if at == len(text)]

"""Token paths of a space too large to enumerate, found by walking the vocabulary through the template.

A path is any sequence of tokens whose text stays inside the template. Only the canonical tokenization of a text counts
as a filling, and every filling has exactly one. So a cut along a path never loses a filling, and a draw that ends with
another tokenization counts as no filling.
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
"""Position in a pattern: the value so far of slot i (``2 i + 1``), or the remainder of literal i (``2 i``)."""
WHOLE_TEXTS = (
    "canary_exposure can use attack=rank-sample, and canary_extraction attack=brute-force on small spaces, which score "
    "whole texts"
)
State = frozenset[Position]
Edges = tuple[IntArray, IntArray]


class AutomatonPaths:
    """The :class:`~leakage_tasks.targets.protocols.Paths` of a space, without enumeration."""

    def __init__(
        self, space: Space, encode: Encode, prefix: Sequence[int], text: str, pieces: Pieces, tail: Tail = NO_TAIL
    ) -> None:
        """Set up the paths.

        Args:
            space: the space.
            encode: the tokenization of texts.
            prefix: the tokens that all fillings share.
            text: the text of ``prefix``.
            pieces: the text of each token.
            tail: the tokens that all fillings end with.
        """
        self.prefix = tuple(prefix)
        self.root = 0
        self._space, self._encode, self._text, self._pieces, self._tail = space, encode, text, pieces, tail
        before_tail = tail.taken_off(space)
        self._pattern = _Pattern(before_tail, text, "".join(tail.marks))
        # Every token adds at least one character.
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
        """Return the number of a state; states are numbered when they are first reached."""
        if state not in self._numbers:
            self._numbers[state] = len(self._sets)
            self._sets.append(state)
        return self._numbers[state]

    def _edges(self, number: int) -> Edges:
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
        distinct, inverse = _distinct(states)
        out = np.full((len(distinct), len(self.columns)), -1, dtype=np.int64)
        for row, state in enumerate(distinct.tolist()):
            columns, after = self._edges(state)
            out[row, columns] = after
        return out[inverse]

    def ends(self, states: IntArray) -> NDArray[np.bool_]:
        return self._of_each(states, self._pattern.complete).astype(bool)

    def goes_on(self, states: IntArray) -> NDArray[np.bool_]:
        return self._of_each(states, lambda state: bool(self._pattern.characters(state))).astype(bool)

    def to_come(self, states: IntArray) -> IntArray:
        """Return the maximum number of characters after each state."""
        return self._of_each(states, self._pattern.to_come)

    def _of_each(self, states: IntArray, fact: Callable[[State], int]) -> IntArray:
        """Return ``fact`` of each state, computed once for equal states."""
        distinct, inverse = _distinct(states)
        return np.array([fact(self._sets[state]) for state in distinct.tolist()], dtype=np.int64)[inverse]

    def fillings(self, states: IntArray, paths: IntArray) -> list[list[Filling]]:
        if not len(paths):
            return []
        before_tail = paths[:, : paths.shape[1] - len(self._tail.tokens)].tolist()
        spelled = ["".join(self._pieces[token] for token in path) for path in before_tail]
        texts = [self._text + text + self._tail.text for text in spelled]
        canonical = [True] * len(texts) if self._vocabulary.letters else self._canonical(texts, paths)
        return [
            parse(self._space, text) if is_canonical else []
            for text, is_canonical in zip(texts, canonical, strict=True)
        ]

    def _canonical(self, texts: list[str], paths: IntArray) -> list[bool]:
        encoded = self._encode(texts)
        return [tokens == [*self.prefix, *path] for tokens, path in zip(encoded, paths.tolist(), strict=True)]

    def count(self, states: IntArray, paths: IntArray) -> IntArray:
        if self._vocabulary.letters and self._single:
            return self.ends(states).astype(np.int64)
        return np.array([len(filling) for filling in self.fillings(states, paths)], dtype=np.int64)

    def path(self, filling: Filling) -> tuple[int, ...]:
        tokens = tuple(self._encode([self._space.fill(filling)])[0])
        if tokens[: len(self.prefix)] != self.prefix:
            raise TargetError(
                "the tokenizer splits the text before the first slot differently for some fillings: put a space or a "
                f"line break before the slot; or {WHOLE_TEXTS}"
            )
        return tokens[len(self.prefix) :]

    def inner_nodes(self, limit: int) -> int | None:
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


def _distinct(states: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct states and each state's index among them; usually there is only one."""
    if len(states) and (states == states[0]).all():
        return states[:1], np.zeros(len(states), dtype=np.int64)
    distinct, inverse = np.unique(states, return_inverse=True)
    return distinct, inverse


class _Pattern:
    """A nondeterministic automaton over characters for the filled texts of a space; a state is a set of positions."""

    def __init__(self, space: Space, consumed: str, end: str) -> None:
        """Set up the automaton; ``consumed`` is the text before the first token, ``end`` follows the texts."""
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
        """Return the positions after one more character; an empty set if the text leaves the template."""
        return frozenset(after for position in state for after in self._advance(position, character))

    def characters(self, state: State) -> set[str]:
        """Return the characters that may follow."""
        following: set[str] = set()
        for index, held in state:
            following |= self._next[id(self._slots[index // 2])][held] if index % 2 else set(held[:1])
        return following

    def to_come(self, state: State) -> int:
        """Return the maximum number of characters that may follow."""
        return max((self._room(position) for position in state), default=0)

    def _room(self, position: Position) -> int:
        # ``_rest`` counts whole slots and later literals: subtract the value so far, or add the rest of the literal.
        index, held = position
        return self._rest[index // 2] - len(held) if index % 2 else self._rest[index // 2] + len(held)

    def complete(self, state: State) -> bool:
        """Return whether a filled text may end here."""
        return (2 * len(self._slots), "") in state


def parse(space: Space, text: str) -> list[Filling]:
    """Return every filling whose filled text is ``text``; there are several if slots of varying length touch."""
    if not text.startswith(space.pieces[0]):
        return []
    partial: list[tuple[Filling, int]] = [((), len(space.pieces[0]))]
    for slot, piece in zip(space.slots, space.pieces[1:], strict=True):
        partial = [
            ((*values, text[at : at + length]), at + length + len(piece))
            for values, at in partial
            for length in slot.lengths
            if text[at : at + length] in slot and text.startswith(piece, at + length)
        ]
    return [values for values, at in partial if at == len(text)]

"""The filled texts of a space as a nondeterministic automaton over characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.targets.tokens.vocabulary import next_characters

Position = tuple[int, str]
"""Position in a pattern: the value so far of slot i (``2 i + 1``), or the remainder of literal i (``2 i``)."""
State = frozenset[Position]


class TextPattern:
    """A nondeterministic automaton over characters for the filled texts of a space; a state is a set of positions."""

    def __init__(self, literals: Sequence[str], slots: Sequence[Alphabet], end: str) -> None:
        """Set up the automaton of texts ``literals[0] slots[0] … slots[-1] literals[-1]``, followed by ``end``."""
        distinct = {id(slot): slot for slot in slots}.values()
        values = (character for slot in distinct for value in slot.values for character in value)
        self.alphabet = frozenset(values).union(*literals)
        self._literals = [*literals[:-1], literals[-1] + end]
        self._next = {id(slot): next_characters(slot.values) for slot in distinct}
        self._slots = slots
        self._longest = [max(map(len, slot.values)) for slot in slots]
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

    def goes_on(self, state: State) -> bool:
        """Return True if a character may follow."""
        return any(index % 2 or held for index, held in state)

    def to_come(self, state: State) -> int:
        """Return the maximum number of characters that may follow."""
        return max((self._room(position) for position in state), default=0)

    def _room(self, position: Position) -> int:
        # ``_rest`` counts whole slots and later literals: subtract the value so far, or add the rest of the literal.
        index, held = position
        return self._rest[index // 2] - len(held) if index % 2 else self._rest[index // 2] + len(held)

    def complete(self, state: State) -> bool:
        """Return True if a filled text may end here."""
        return (2 * len(self._slots), "") in state

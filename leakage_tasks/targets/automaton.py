"""Token paths of a space too large to enumerate: a walk of the vocabulary through the template.

Any sequence of tokens whose text stays inside the template is a path; only the canonical tokenization of its
text counts as a filling, and every filling has exactly one. So a cut along a path never loses a filling, and
a draw that ends elsewhere counts as no filling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.errors import TargetError
from leakage_tasks.targets.protocols import IntArray

Position = tuple[int, str]
"""Place in a pattern: slot i's value so far (``2 i + 1``), or what is left of literal i (``2 i``)."""
Encode = Callable[[list[str]], list[list[int]]]


class AutomatonPaths:
    """Implements :class:`~leakage_tasks.targets.protocols.Paths` without enumerating the space."""

    def __init__(
        self, space: Space, encode: Encode, prefix: Sequence[int], text: str, pieces: Mapping[int, str]
    ) -> None:
        """``prefix`` are the tokens all fillings share, ``text`` is what they spell, ``pieces`` each token's text."""
        self.prefix = tuple(prefix)
        self.root = 0
        self._space, self._encode, self._text, self._pieces = space, encode, text, pieces
        self._pattern = _Pattern(space, text)
        self._vocabulary = _vocabulary_tree(pieces)
        self._build()

    def _build(self) -> None:
        """Number the states reachable from the start and lay their transitions out as one table."""
        numbers = {self._pattern.start: 0}
        edges: list[dict[int, int]] = []
        waiting = [self._pattern.start]
        while len(edges) < len(waiting):
            reached: dict[int, int] = {}
            for token, after in self._follow(waiting[len(edges)], self._vocabulary):
                if after not in numbers:
                    numbers[after] = len(numbers)
                    waiting.append(after)
                reached[token] = numbers[after]
            edges.append(reached)
        self.columns = np.array(sorted({token for reached in edges for token in reached}), dtype=np.int64)
        self._table = np.full((len(edges), len(self.columns)), -1, dtype=np.int32)
        for state, reached in enumerate(edges):
            if reached:
                self._table[state, np.searchsorted(self.columns, list(reached))] = list(reached.values())
        self._ends = np.array([self._pattern.complete(state) for state in waiting])
        spelled = [self._pieces[int(token)] for token in self.columns]
        # One character a token and one token a character: every path is canonical.
        self._letters = all(len(text) == 1 for text in spelled) and len(set(spelled)) == len(spelled)
        self._single = all(len(value) == 1 for slot in self._space.slots for value in slot.values)

    def _follow(self, state: frozenset[Position], tree: dict) -> Iterable[tuple[int, frozenset[Position]]]:
        for character, below in tree.items():
            if character == "":
                yield from ((token, state) for token in below)
            elif after := self._pattern.step(state, character):
                yield from self._follow(after, below)

    def table(self, states: IntArray) -> IntArray:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        return self._table[states].astype(np.int64)

    def ends(self, states: IntArray) -> NDArray[np.bool_]:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        return np.asarray(self._ends[states])

    def goes_on(self, states: IntArray) -> NDArray[np.bool_]:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        return np.asarray((self._table[states] >= 0).any(axis=1))

    def fillings(self, states: IntArray, paths: IntArray) -> list[list[Filling]]:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        if not len(paths):
            return []
        texts = [self._text + "".join(self._pieces[token] for token in path) for path in paths.tolist()]
        canonical = [True] * len(texts) if self._letters else self._canonical(texts, paths)
        return [parse(self._space, text) if kept else [] for text, kept in zip(texts, canonical, strict=True)]

    def _canonical(self, texts: list[str], paths: IntArray) -> list[bool]:
        encoded = self._encode(texts)
        return [tokens == [*self.prefix, *path] for tokens, path in zip(encoded, paths.tolist(), strict=True)]

    def count(self, states: IntArray, paths: IntArray) -> IntArray:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        if self._letters and self._single:
            return self.ends(states).astype(np.int64)
        return np.array([len(found) for found in self.fillings(states, paths)], dtype=np.int64)

    def path(self, filling: Filling) -> tuple[int, ...]:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        tokens = tuple(self._encode([self._space.fill(filling)])[0])
        if tokens[: len(self.prefix)] != self.prefix:
            raise TargetError(
                "the tokenizer splits the text before the first slot differently for some fillings: put a space or a "
                "line break before the slot, or use attack=sampled, which scores whole texts"
            )
        return tokens[len(self.prefix) :]


class _Pattern:
    """The filled texts of a space as a nondeterministic automaton over characters, run by sets of positions."""

    def __init__(self, space: Space, consumed: str) -> None:
        self._literals = list(space.pieces)
        self._literals[0] = self._literals[0].removeprefix(consumed)
        self._prefixes = {id(slot): _prefixes(slot.values) for slot in space.slots}
        self._slots = space.slots
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
            if value in self._prefixes[id(slot)]:
                yield (index, value)
            if value in slot:
                yield from self._enter_literal(index // 2 + 1)
        elif held.startswith(character):
            rest = held[1:]
            if rest or index // 2 == len(self._slots):
                yield (index, rest)
            else:
                yield (index + 1, "")

    def step(self, state: frozenset[Position], character: str) -> frozenset[Position]:
        """Positions after one more character; empty where the text leaves the template."""
        return frozenset(after for position in state for after in self._advance(position, character))

    def complete(self, state: frozenset[Position]) -> bool:
        """Whether a filled text may end here."""
        return (2 * len(self._slots), "") in state


def _prefixes(values: Iterable[str]) -> frozenset[str]:
    """Every proper prefix of the values, the empty one excepted."""
    return frozenset(value[:length] for value in values for length in range(1, len(value)))


def _vocabulary_tree(pieces: Mapping[int, str]) -> dict:
    """Tokens by their characters; the tokens that end at a node stand under the empty string."""
    tree: dict = {}
    for token, text in pieces.items():
        node = tree
        for character in text:
            node = node.setdefault(character, {})
        node.setdefault("", []).append(token)
    return tree


def parse(space: Space, text: str) -> list[Filling]:
    """Every filling whose filled text is ``text`` (several where slots of varying length touch)."""
    if not text.startswith(space.pieces[0]):
        return []
    found: list[tuple[Filling, int]] = [((), len(space.pieces[0]))]
    for slot, piece in zip(space.slots, space.pieces[1:], strict=True):
        lengths = {len(value) for value in slot.values}
        found = [
            ((*values, text[at : at + length]), at + length + len(piece))
            for values, at in found
            for length in lengths
            if text[at : at + length] in slot and text.startswith(piece, at + length)
        ]
    return [values for values, at in found if at == len(text)]

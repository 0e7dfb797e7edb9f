"""Token paths of a space too large to enumerate, found by walking the vocabulary through the template.

A path is any sequence of tokens whose text stays inside the template. Only the canonical tokenization of a text counts
as a filling, and every filling has exactly one. So a cut along a path never loses a filling, and a draw that ends with
another tokenization counts as no filling.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import contains
from typing import Self

import numpy as np

from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import BoolArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.tokens.fixed_ends import NO_TAIL, Encode, Tail
from leakage_tasks.targets.tokens.states import Automaton
from leakage_tasks.targets.tokens.vocabulary import Pieces

WHOLE_TEXTS = (
    "canary_exposure can use attack=rank-sample, and canary_extraction attack=brute-force on small spaces, which score "
    "whole texts"
)


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
        self._space, self._encode, self._text, self._pieces, self._tail = space, encode, text, pieces, tail
        first, *rest = tail.without_tail_text(space).pieces
        self.graph = Automaton.of((first.removeprefix(text), *rest), space.slots, tail.marks, pieces)
        """The states and their numbers, shared by canaries whose texts differ in the prefix alone."""
        self.root, self.columns = self.graph.root, self.graph.columns
        # Every token adds at least one character.
        self.longest = int(self.graph.to_come[self.root])
        self._single = all(slot.lengths == {1} for slot in space.slots)

    def after(self, prefix: Sequence[int], space: Space, encode: Encode, text: str) -> Self:
        """Return these paths after another prefix with its text, for a space that differs in that text alone."""
        moved = object.__new__(type(self))
        vars(moved).update(vars(self), prefix=tuple(prefix), _space=space, _encode=encode, _text=text)
        return moved

    def table(self, states: IntArray) -> IntArray:
        return self.graph.table(states)

    def ends(self, states: IntArray) -> BoolArray:
        return self.graph.ends[states]

    def goes_on(self, states: IntArray) -> BoolArray:
        return self.graph.goes_on[states]

    def to_come(self, states: IntArray) -> IntArray:
        """Return the maximum number of characters after each state."""
        return self.graph.to_come[states]

    def fillings(self, states: IntArray, paths: IntArray) -> list[list[Filling]]:
        if not len(paths):
            return []
        before_tail = paths[:, : paths.shape[1] - len(self._tail.tokens)].tolist()
        spelled = ["".join(self._pieces[token] for token in path) for path in before_tail]
        texts = [self._text + text + self._tail.text for text in spelled]
        if not self.graph.letters:
            canonical = self._canonical(texts, paths)
        elif (spans := self._space.spans) is None:
            canonical = [True] * len(texts)
        else:  # A path of characters stays in the template, and its slots are at known positions.
            ends = self.ends(states).tolist()
            return [
                [tuple([text[span] for span in spans])] if end else [] for text, end in zip(texts, ends, strict=True)
            ]
        return [
            parse(self._space, text) if is_canonical else []
            for text, is_canonical in zip(texts, canonical, strict=True)
        ]

    def _canonical(self, texts: list[str], paths: IntArray) -> list[bool]:
        encoded = self._encode(texts)
        return [tokens == [*self.prefix, *path] for tokens, path in zip(encoded, paths.tolist(), strict=True)]

    def count(self, states: IntArray, paths: IntArray) -> IntArray:
        if self.graph.letters and self._single:
            return self.ends(states).astype(np.int64)
        return np.array([len(filling) for filling in self.fillings(states, paths)], dtype=np.int64)

    def path(self, filling: Filling) -> tuple[int, ...]:
        return self.each_path([filling])[0]

    def each_path(self, fillings: Sequence[Filling]) -> list[tuple[int, ...]]:
        encoded = [tuple(tokens) for tokens in self._encode([self._space.fill(filling) for filling in fillings])]
        if any(tokens[: len(self.prefix)] != self.prefix for tokens in encoded):
            raise TargetError(
                "the tokenizer splits the text before the first slot differently for some fillings: put a space or a "
                f"line break before the slot; or {WHOLE_TEXTS}"
            )
        return [tokens[len(self.prefix) :] for tokens in encoded]

    def inner_nodes(self, limit: int) -> int | None:
        return self.graph.inner_nodes(limit)


def parse(space: Space, text: str) -> list[Filling]:
    """Return every filling whose filled text is ``text``; there are several if slots of varying length touch."""
    if not text.startswith(space.pieces[0]):
        return []
    if space.spans is not None:
        values = tuple([text[span] for span in space.spans])
        return [values] if space.begin(values) == text and all(map(contains, space.slots, values)) else []
    partial: list[tuple[Filling, int]] = [((), len(space.pieces[0]))]
    for slot, piece in zip(space.slots, space.pieces[1:], strict=True):
        partial = [
            ((*values, text[at : at + length]), at + length + len(piece))
            for values, at in partial
            for length in slot.lengths
            if text[at : at + length] in slot and text.startswith(piece, at + length)
        ]
    return [values for values, at in partial if at == len(text)]

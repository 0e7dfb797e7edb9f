"""The tree of texts against a simple model: a dictionary of whole texts."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from leakage_tasks.targets.causal.text_rows import FIRST_ROWS, NOTHING, VIRTUAL, TextRows, TextTree

LENGTHS = st.lists(st.integers(1, 5), min_size=1, max_size=6)


class Texts(RuleBasedStateMachine):
    """Texts that are added after others, selected, joined and let go in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.freed: list[int] = []
        self.tree = TextTree(lambda rows: self.freed.extend(rows.tolist()))
        self.held: list[tuple[TextRows, list[list[tuple[int, int]]]]] = []
        """Rows, and the tokens of each text with the number of the addition that made it."""
        self.made = 0

    @rule(lengths=LENGTHS, after=st.data())
    def add(self, lengths: Sequence[int], after: Any) -> None:
        """Read tokens after known texts, or from the beginning."""
        parents, before = np.full(len(lengths), NOTHING), [[] for _ in lengths]
        if self.held and after.draw(st.booleans()):
            rows, texts = self.held[after.draw(st.integers(0, len(self.held) - 1))]
            chosen = after.draw(st.lists(st.integers(0, len(texts) - 1), min_size=len(lengths), max_size=len(lengths)))
            parents, before = rows.numbers[chosen], [texts[index] for index in chosen]  # type: ignore[assignment]
        tokens = np.array([[self.made + place for place in range(max(lengths))] for _ in lengths])
        tokens += 100 * np.arange(len(lengths))[:, None]
        new, added = self.tree.add_texts(parents, tokens, np.array(lengths))
        assert added.sum(axis=1).tolist() == list(lengths)
        assert np.array_equal(new == NOTHING, ~added)
        texts = TextRows.holding(self.tree, new[np.arange(len(lengths)), np.array(lengths) - 1])
        own = [
            [(int(token), self.made + n * 1000) for token in row[:length]]
            for n, (row, length) in enumerate(zip(tokens, lengths, strict=True))
        ]
        self.made += 1_000_000
        self.held.append((texts, [[*old, *more] for old, more in zip(before, own, strict=True)]))

    @rule(draw=st.data())
    def let_go(self, draw: Any) -> None:
        """Drop some texts."""
        if self.held:
            self.held.pop(draw.draw(st.integers(0, len(self.held) - 1)))
            gc.collect(0)

    @rule(draw=st.data())
    def hold_some(self, draw: Any) -> None:
        """Keep a selection of two sets of texts without the sets themselves."""
        if len(self.held) > 1:
            parts = [self.held.pop(draw.draw(st.integers(0, len(self.held) - 1))) for _ in range(2)]
            joined, texts = TextRows.joined([rows for rows, _ in parts]), [text for _, own in parts for text in own]
            assert len(joined) == len(texts)
            chosen = draw.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=5))
            rows = TextRows.holding(self.tree, joined[np.array(chosen)].numbers)
            self.held.append((rows, [texts[index] for index in chosen]))

    @invariant()
    def every_text_is_what_was_read(self) -> None:
        """Compare tokens, lengths and paths."""
        for rows, texts in self.held:
            assert [self.tree.read_tokens(row) for row in rows.numbers] == [[token for token, _ in t] for t in texts]
            assert self.tree.lengths[rows.numbers].tolist() == list(map(len, texts))
            for skipped in (0, 1):
                paths, longest = self.tree.paths(rows.numbers, skipped), max(map(len, texts)) - skipped
                assert paths.shape == (len(texts), longest)
                for path, text in zip(paths, texts, strict=True):
                    own = len(text) - skipped
                    assert path[: longest - own].tolist() == [NOTHING] * (longest - own)
                    assert self.tree.tokens[path[longest - own :]].tolist() == [token for token, _ in text[skipped:]]

    @invariant()
    def only_rows_of_texts_are_in_use(self) -> None:
        """Count each beginning of each text once."""
        beginnings = {tuple(text[:k]) for _, texts in self.held for text in texts for k in range(1, len(text) + 1)}
        assert self.tree.used == 1 + len(beginnings)
        used = {int(row) for rows, _ in self.held for row in self.tree.paths(rows.numbers).ravel()} - {NOTHING}
        assert len(used) == len(beginnings)
        assert NOTHING not in self.freed


TestTexts = Texts.TestCase
# Each step compares all texts, so the time of an example grows with the square of its steps.
TestTexts.settings = settings(stateful_step_count=25)


@given(st.integers(1, 3 * FIRST_ROWS), st.integers(1, 3 * FIRST_ROWS))
def test_freed_rows_are_used_before_there_are_more(first: int, second: int) -> None:
    freed: list[int] = []
    tree = TextTree(lambda rows: freed.extend(rows.tolist()))
    texts = TextRows.holding(tree, tree.add(np.full(first, NOTHING), np.arange(first)))
    numbers = set(texts.numbers.tolist())
    assert len(numbers) == first
    size = tree.size
    del texts
    assert tree.used == 1
    assert sorted(freed) == sorted(numbers)
    again = TextRows.holding(tree, tree.add(np.full(second, NOTHING), np.arange(second)))
    assert len(set(again.numbers.tolist())) == second
    assert NOTHING not in again.numbers
    assert tree.used == 1 + second
    if second < size:
        assert tree.size == size


def test_texts_that_are_deleted_while_rows_are_taken_are_released_later() -> None:
    """Garbage collection may delete texts of a reference cycle at any moment."""
    tree = TextTree()
    texts = [TextRows.holding(tree, tree.add(np.full(5, NOTHING), np.arange(5))) for _ in range(4)]
    free = tree._free

    class Deleting(np.ndarray):
        """An array whose selection deletes texts."""

        def __getitem__(self, chosen: Any) -> Any:
            texts.clear()
            return np.asarray(self)[chosen]

    kept = texts[0]
    tree._free = free.view(Deleting)
    taken = tree.add(np.full(3, NOTHING), np.arange(3))
    tree._free = free
    held = TextRows.holding(tree, taken)
    assert len({*taken.tolist(), *kept.numbers.tolist()}) == 8
    assert tree.used == 1 + 8
    more = TextRows.holding(tree, tree.add(np.full(40, NOTHING), np.arange(40)))
    assert len({*taken.tolist(), *kept.numbers.tolist(), *more.numbers.tolist()}) == 48
    assert len(held) == 3


def test_contexts_and_sources_go_on_to_later_tokens() -> None:
    tree = TextTree()
    rows, _ = tree.add_texts(np.full(2, NOTHING), np.array([[5, 6], [7, 8]]), np.array([2, 2]))
    tree.contexts[rows[:, 1]], tree.sources[rows[:, 1]] = [3, 4], [30, 40]
    more = tree.add(rows[[1, 0, 1], 1], np.array([1, 2, 3]))
    assert tree.contexts[more].tolist() == [4, 3, 4]
    assert tree.sources[more].tolist() == [40, 30, 40]
    assert tree.contexts[tree.add(np.full(1, NOTHING), np.array([9]))].tolist() == [0]


def test_a_soft_prompt_is_no_token() -> None:
    tree = TextTree()
    rows, _ = tree.add_texts(np.full(1, NOTHING), np.array([[VIRTUAL, VIRTUAL, 5, 6]]), np.array([4]))
    assert tree.read_tokens(int(rows[0, -1])) == [5, 6]
    assert int(tree.lengths[rows[0, -1]]) == 4


def test_what_texts_need_is_kept_with_their_selections() -> None:
    class Other:
        """Something that texts need."""

    import weakref

    tree, other = TextTree(), Other()
    alive = weakref.ref(other)
    texts = TextRows.holding(tree, tree.add(np.full(2, NOTHING), np.array([5, 6])), (other,))
    del other
    kept = TextRows.joined([texts[[1]], TextRows.holding(tree, np.array([NOTHING]))])
    del texts
    assert alive() is not None
    del kept
    assert alive() is None

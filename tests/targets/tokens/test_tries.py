"""Tries that canaries of one template share: the same paths as a trie of their own, whatever stands before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakage_tasks.canaries import parse_template
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.targets.tokens.trie import TriePaths
from leakage_tasks.targets.tokens.tries import KEPT, Tries
from tests.oracles import letters, merging

Rows = list[list[int]]


class Counting:
    """Tokens of texts, how many texts were asked about, and how many characters they had."""

    def __init__(self, tokenizer: object) -> None:
        self._tokenizer, self.texts, self.characters = tokenizer, 0, 0

    def __call__(self, texts: Sequence[str]) -> Rows:
        self.texts += len(texts)
        self.characters += sum(map(len, texts))
        return self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]  # type: ignore[operator]


def named(name: str, rest: str = " is {digits:3}.") -> Space:
    return parse_template(f"the pin of {name}{rest}")


def assert_same(found: TriePaths, space: Space, own: TriePaths) -> None:
    """The same tokens for every filling, and the same tree."""
    states = np.arange(1 + int(own.table(np.arange(1))[0].max()))
    for filling in space.enumerate():
        assert (*found.prefix, *found.path(filling)) == (*own.prefix, *own.path(filling))
    assert found.prefix == own.prefix
    assert found.columns.tolist() == own.columns.tolist()
    assert found.table(states).tolist() == own.table(states).tolist()


@pytest.mark.parametrize("tokenizer", [letters, merging])
@pytest.mark.parametrize(
    "rest",
    [" is {digits:2}.", " is {digits:2}", ": {letters:1}{digits:1}!", " no {digits:1}"],
)
@settings(max_examples=10, deadline=None)
@given(st.lists(st.text("abTxyz -", max_size=6), min_size=2, max_size=2))
def test_paths_are_those_of_a_trie_of_ones_own(tokenizer: object, rest: str, names: list[str]) -> None:
    encode, tries = Counting(tokenizer()), Tries()  # type: ignore[operator]
    with mock.patch("leakage_tasks.targets.tokens.tries.WORTH", 1):
        for name in names:
            space = named(name, rest)
            assert_same(tries.paths(space, encode), space, TriePaths(space, encode))


@pytest.mark.parametrize("rest", [" is {digits:3}.", "\n code\t{digits:3}", "\ncode: {digits:3}"])
def test_one_of_many_names_is_laid_out_after_any_white_space(rest: str) -> None:
    encode, tries = Counting(letters()), Tries()
    tries.paths(named("ann", rest), encode)
    before = encode.texts
    found = tries.paths(named("bob", rest), encode)
    assert encode.texts - before < 100
    assert found.fillings(np.array([found.root]), np.empty((1, 0))) == [[]]


def test_what_a_trie_says_of_a_filling_is_about_its_own_space() -> None:
    tries = Tries()
    first, second = (tries.paths(named(name), Counting(letters())) for name in ("ann", "bobby"))
    assert first.path(("1", "2", "3")) == second.path(("1", "2", "3"))
    assert len(second.prefix) == len(first.prefix) + 2


def test_a_name_that_changes_the_tokens_of_fillings_gets_a_trie_of_its_own() -> None:
    plain = Counting(letters())

    def encode(texts: Sequence[str]) -> Rows:
        rows = plain(texts)
        return [
            [*row[:-4], *reversed(row[-4:-1]), row[-1]] if "bob" in text else row
            for text, row in zip(texts, rows, strict=True)
        ]

    tries = Tries()
    tries.paths(named("ann"), encode)
    space = named("bob")
    assert_same(tries.paths(space, encode), space, TriePaths(space, encode))
    assert plain.texts >= 3 * space.size


def test_all_fillings_are_encoded_after_the_last_word_alone() -> None:
    encode = Counting(letters())
    space = named("ann" * 200)
    found = Tries().paths(space, encode)
    assert space.size < encode.texts < space.size + 100
    assert encode.characters < len(space.prefix) * 100
    assert_same(found, space, TriePaths(space, encode))


def test_a_context_is_encoded_before_probes_alone() -> None:
    plain = Counting(letters())
    inside = Counting(lambda texts, **options: letters()([f"the context {text}" for text in texts], **options))
    space = named("ann")
    found = Tries().paths(space, inside, plain)
    assert inside.texts < 100
    assert_same(found, space, TriePaths(space, inside))


@pytest.mark.parametrize("wrong", [lambda row: [*reversed(row)], lambda row: row[:-3]])
def test_where_the_last_word_alone_has_other_tokens_the_whole_text_is_laid_out(
    wrong: Callable[[list[int]], list[int]],
) -> None:
    """The latter has no tree at all: fillings of one first digit have the same tokens."""
    plain = Counting(letters())

    def encode(texts: Sequence[str]) -> Rows:
        return [row if "pin" in text else wrong(row) for text, row in zip(texts, plain(texts), strict=True)]

    space = named("ann")
    assert_same(Tries().paths(space, encode), space, TriePaths(space, encode))


@pytest.mark.parametrize(
    "other", ["the pin of bob was {digits:3}.", "the pin of bob is {digits:3}", "the pin of bob is {letters:2}."]
)
def test_another_template_is_laid_out_anew(other: str) -> None:
    encode, tries, space = Counting(letters()), Tries(), parse_template(other)
    tries.paths(named("ann"), encode)
    before = encode.texts
    tries.paths(space, encode)
    assert encode.texts - before >= space.size


def test_tries_of_a_few_templates_are_remembered() -> None:
    encode, tries = Counting(letters()), Tries()
    for word in "abcdef"[: KEPT + 1]:
        tries.paths(named("ann", f" {word} {{digits:3}}."), encode)
    before = encode.texts
    tries.paths(named("bob", " b {digits:3}."), encode)
    assert encode.texts - before < 100
    tries.paths(named("bob", " a {digits:3}."), encode)
    assert encode.texts - before > 1000

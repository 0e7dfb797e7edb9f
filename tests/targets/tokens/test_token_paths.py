"""Token paths: each filling has exactly one, and enumeration and the walk of the vocabulary agree."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leakage_tasks.canaries import parse_template, word_list
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.tokens import token_paths as layout
from leakage_tasks.targets.tokens.automaton import AutomatonPaths, parse
from leakage_tasks.targets.tokens.token_paths import lay_out
from leakage_tasks.targets.tokens.trie import TriePaths
from leakage_tasks.targets.tokens.tries import Tries
from leakage_tasks.targets.tokens.vocabulary import Pieces, token_pieces
from tests.oracles import letters, merging

TEMPLATES = [
    "the pin is {digits:3}.",
    "the pin is {digits:3}",
    "{digits:2}",
    "code ab{digits:1}{letters:1}-{digits:1} x",
]


def encoder(tokenizer):
    return lambda texts: tokenizer(texts, add_special_tokens=False)["input_ids"]


def automaton(space, tokenizer, monkeypatch):
    monkeypatch.setattr(layout, "ENUMERATE", 0)
    return lay_out(space, encoder(tokenizer), lambda: token_pieces(tokenizer, len(tokenizer)), Tries())


def walk(paths, tokens):
    """State after some tokens, by the table."""
    state = paths.root
    for token in tokens:
        column = np.searchsorted(paths.columns, token)
        assert paths.columns[column] == token
        state = int(paths.table(np.array([state]))[0, column])
        assert state >= 0
    return state


def all_fillings(paths):
    """Every filling the graph spells, found by walking all of it, token by token."""
    found, states, tokens = [], np.array([paths.root]), np.zeros((1, 0), dtype=np.int64)
    while len(states):
        whole = paths.ends(states)
        found += sum(paths.fillings(states[whole], tokens[whole]), [])
        after = paths.table(states)
        parents, columns = np.nonzero(after >= 0)
        states = after[parents, columns]
        tokens = np.column_stack([tokens[parents], paths.columns[columns]])
    return found


def inner_nodes(paths):
    """The number of nodes below the root that have children, found by walking all of the graph."""
    number, states = -1, np.array([paths.root])
    while len(states):
        after = paths.table(states)
        number += int((after >= 0).any(axis=1).sum())
        states = after[after >= 0]
    return number


@pytest.fixture(params=["enumerated", "walked"])
def laid_out(request, monkeypatch):
    """Lay the paths of a space out by one of the two ways."""

    def paths(space, tokenizer):
        if request.param == "enumerated":
            return TriePaths(space, encoder(tokenizer))
        found = automaton(space, tokenizer, monkeypatch)
        assert isinstance(found, AutomatonPaths)
        return found

    return paths


@pytest.mark.parametrize("tokenizer", [letters, merging])
@pytest.mark.parametrize("template", TEMPLATES)
def test_every_filling_has_exactly_one_path_along_which_less_is_to_come(template, tokenizer, laid_out):
    space = parse_template(template)
    paths = laid_out(space, tokenizer())
    assert sorted(all_fillings(paths)) == sorted(space.enumerate())
    expected = inner_nodes(paths)
    assert paths.inner_nodes(expected) == expected
    assert paths.inner_nodes(expected - 1) is None
    states = np.array([paths.root])
    while len(states):
        after = paths.table(states)
        parents, columns = np.nonzero(after >= 0)
        children = after[parents, columns]
        assert (paths.to_come(children) < paths.to_come(states)[parents]).all()
        states = np.unique(children)


def test_a_fillings_path_is_its_encoding_after_the_prefix(laid_out):
    space, encode = parse_template("the pin is {digits:4}."), encoder(merging())
    paths = laid_out(space, merging())
    for filling in space.sample(30, 1):
        tokens = paths.path(filling)
        assert [*paths.prefix, *tokens] == encode([space.fill(filling)])[0]
        state = np.array([walk(paths, tokens)])
        assert paths.fillings(state, np.array([tokens])) == [[filling]]
        assert paths.count(state, np.array([tokens])).tolist() == [1]


def test_other_spellings_of_a_filling_count_for_nothing(monkeypatch):
    space, tokenizer = parse_template("the pin is {digits:4}."), merging()
    paths = automaton(space, tokenizer, monkeypatch)
    filling = next(f for f in space.sample(99, 2) if len(paths.path(f)) < 6)
    singles = encoder(tokenizer)([*" ", *filling, "."])
    spelled = tuple(token for tokens in singles for token in tokens)[-len(filling) - 2 :]
    spelled = spelled if paths.path(filling)[0] != spelled[0] else spelled[1:]
    state = np.array([walk(paths, spelled)])
    assert paths.ends(state)[0]
    assert paths.fillings(state, np.array([spelled])) == [[]]


def test_words_that_begin_alike_and_slots_of_varying_length():
    space = parse_template("a {w:2} b", {"w": word_list("w", ["no", "not", "note", "t"])})
    paths = lay_out(space, encoder(letters()), lambda: token_pieces(letters(), len(letters())), Tries())
    assert sorted(all_fillings(paths)) == sorted(space.enumerate())


@pytest.mark.parametrize("limit", [0, 20_000])
def test_touching_slots_that_spell_one_text_are_that_many_fillings(limit, monkeypatch):
    monkeypatch.setattr(layout, "ENUMERATE", limit)
    space = parse_template("{w}{v}", {"w": word_list("w", ["a", "ab"]), "v": word_list("v", ["bc", "c"])})
    assert sorted(parse(space, "abc")) == [("a", "bc"), ("ab", "c")]
    paths = lay_out(space, encoder(letters()), lambda: token_pieces(letters(), len(letters())), Tries())
    assert sorted(all_fillings(paths)) == sorted(space.enumerate())
    tokens = np.array([paths.path(("a", "bc"))])
    assert paths.count(np.array([walk(paths, tokens[0])]), tokens).tolist() == [2]


def test_a_token_that_swallows_the_space_before_a_few_secrets_is_allowed_for(monkeypatch):
    monkeypatch.setattr(layout, "probes_of", lambda space: [("z", "z"), ("y", "x")])
    space = parse_template(" {letters:2}")
    shared = {encoder(merging())([space.fill(filling)])[0][0] for filling in space.enumerate()}
    assert len(shared) > 1
    paths = automaton(space, merging(), monkeypatch)
    assert sorted(all_fillings(paths)) == sorted(space.enumerate())


@pytest.mark.parametrize("tokenizer", [letters(), merging()])
@pytest.mark.parametrize("by_character", [False, True])
def test_paths_are_moved_to_another_beginning_if_the_tokens_of_fillings_stay(tokenizer, by_character, monkeypatch):
    """Some texts are encoded character by character, as if the beginning of a text decided on all of its tokens."""
    monkeypatch.setattr(layout, "ENUMERATE", 0)

    def encode(texts):
        return [
            sum(encoder(tokenizer)(list(text)), []) if by_character and text.startswith("a") else tokens
            for text, tokens in zip(texts, encoder(tokenizer)(texts), strict=True)
        ]

    pieces = token_pieces(tokenizer, len(tokenizer))
    spaces = [parse_template(f"{begun} is {{digits:2}} now") for begun in ("the pin", "the code", "a code")]
    moved = [lay_out(space, encode, lambda: pieces, Tries()) for space in spaces]
    fresh = [lay_out(space, encode, lambda: Pieces(pieces), Tries()) for space in spaces]
    for space, one, other in zip(spaces, moved, fresh, strict=True):
        assert one.prefix == other.prefix
        assert sorted(all_fillings(one)) == sorted(all_fillings(other)) == sorted(space.enumerate())
        assert all(one.path(filling) == other.path(filling) for filling in space.enumerate())
    assert moved[1].graph is moved[0].graph


def test_a_tokenizer_that_cannot_tell_fillings_apart_is_declined():
    lossy = lambda texts: encoder(letters())([text.replace("7", "1") for text in texts])  # noqa: E731
    with pytest.raises(TargetError, match="cannot be distinguished"):
        lay_out(parse_template("pin {digits:2}"), lossy, Pieces, Tries())


def test_a_value_the_walk_would_miss_is_noticed(monkeypatch):
    monkeypatch.setattr(layout, "ENUMERATE", 0)
    monkeypatch.setattr(layout, "ENUMERATE_AT_MOST", 0)
    words = word_list("w", [f"{a}{b}{c}" for a in "abcdefgh" for b in "klmnop" for c in "stuvwx"] + ["na\u0175"])
    pieces = Pieces(token_pieces(merging(), len(merging())))
    with pytest.raises(TargetError, match="attack=rank-sample"):
        lay_out(parse_template("{w} {w}", {"w": words}), encoder(merging()), lambda: pieces, Tries())


def test_a_tokenizer_that_loses_characters_is_declined():
    space = parse_template("number {digits:9}")
    lossy = lambda texts: letters()([text.replace("7", "1") for text in texts], add_special_tokens=False)["input_ids"]  # noqa: E731
    with pytest.raises(TargetError, match="attack=rank-sample"):
        lay_out(space, lossy, lambda: token_pieces(letters(), len(letters())), Tries())


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@example(" ", "", 2, "letters")
@given(
    st.text("abT -", max_size=6),
    st.text("ab.-", max_size=4),
    st.integers(1, 2),
    st.sampled_from(["digits", "letters"]),
)
def test_any_template_keeps_all_of_its_fillings(before, after, count, alphabet):
    space = parse_template(f"{before}{{{alphabet}:{count}}}{after}")
    tokenizer = merging()
    encode = encoder(tokenizer)
    paths = TriePaths(space, encode)
    assert len(all_fillings(paths)) == space.size
    old, layout.ENUMERATE = layout.ENUMERATE, 0
    try:
        walked = lay_out(space, encode, lambda: token_pieces(tokenizer, len(tokenizer)), Tries())
    finally:
        layout.ENUMERATE = old
    assert sorted(all_fillings(walked)) == sorted(space.enumerate())

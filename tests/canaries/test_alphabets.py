"""Alphabets: order, JSON form, and what of a tokenizer is a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.canaries.alphabets import (
    BUILT_IN,
    Alphabet,
    alphabet_from_json,
    tokenizer_words,
    word_file,
    word_list,
)
from leakage_tasks.canaries.spaces import parse_template
from leakage_tasks.core.errors import SpaceError

WORDS = st.lists(st.text(min_size=1).filter(lambda text: text.isprintable()), min_size=1, unique=True)


@given(WORDS, st.sampled_from(["", " ", "-"]))
def test_json_round_trip(words: list[str], joiner: str) -> None:
    alphabet = Alphabet("mine", tuple(words), joiner)
    data = json.loads(json.dumps(alphabet.to_json()))
    assert alphabet_from_json("mine", data) == alphabet


@given(WORDS)
def test_positions_are_the_order(words: list[str]) -> None:
    alphabet = word_list("mine", words)
    assert [alphabet.position(word) for word in words] == list(range(len(words)))
    assert all(word in alphabet for word in words)


def test_built_in_ones_need_no_description() -> None:
    for name, alphabet in BUILT_IN.items():
        assert alphabet.to_json() == {}
        assert alphabet_from_json(name, {}) is alphabet


@pytest.mark.parametrize(
    ("slot", "text"), [("digits", "281"), ("digit_words", "2 8 1"), ("number_words", "two eight one")]
)
def test_a_number_is_written_in_three_ways(slot: str, text: str) -> None:
    space = parse_template(f"{{{slot}:3}}")
    assert space.fill(space.at(281)) == text
    assert space.size == 1000


def test_one_called_as_a_built_in_keeps_its_values() -> None:
    binary = Alphabet("digits", ("0", "1"))
    assert alphabet_from_json("digits", binary.to_json()) == binary


@pytest.mark.parametrize(("values", "message"), [((), "empty"), (("a", ""), "empty string"), (("a", "a"), "twice")])
def test_bad_values(values: tuple[str, ...], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        Alphabet("mine", values)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "unknown space 'mine'"),
        ({"kind": "list"}, "'values' must be"),
        ({"kind": "list", "values": ["a", 1]}, "'values' must be"),
        ({"kind": "list", "values": ["a"], "joiner": 3}, "'joiner' must be"),
        ({"kind": "words"}, "unknown kind 'words'"),
        ({"kind": "tokens"}, "'tokenizer' must be"),
        ({"kind": "tokens", "tokenizer": "/no/such/folder"}, "no such folder"),
    ],
)
def test_bad_descriptions(data: dict[str, object], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        alphabet_from_json("mine", data)


def test_word_file(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(b"\xef\xbb\xbfred\r\n\r\n blue \nred\n")
    assert word_file("mine", path) == word_list("mine", ["red", "blue"])


@pytest.mark.parametrize(("content", "message"), [(b"\xff", "not UTF-8 at byte 0"), (b"\n", "contains no word")])
def test_bad_word_file(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(SpaceError, match=message):
        word_file("mine", path)
    with pytest.raises(SpaceError, match="No such file"):
        word_file("mine", tmp_path / "none")


def test_whole_words_of_a_byte_level_tokenizer(byte_level: Path) -> None:
    words = tokenizer_words("words", str(byte_level), "whole-words")
    assert words.values == ("b", "r", "re", "red")  # not "ed" (no space before it), not "7" (no letters)
    assert words.joiner == " "


def test_free_tokens_of_a_byte_level_tokenizer(byte_level: Path) -> None:
    tokens = tokenizer_words("tokens", str(byte_level), "tokens")
    assert {" red", "ed", "12", "\n"} <= set(tokens.values)
    assert "<|end|>" not in tokens
    assert all("\ufffd" not in token for token in tokens.values)


def test_word_pieces(word_pieces: Path) -> None:
    words = tokenizer_words("words", str(word_pieces), "whole-words")
    assert words.values == ("a", "blue", "green", "red")
    tokens = tokenizer_words("tokens", str(word_pieces), "tokens")
    assert {"ing", "s", " red"} <= set(tokens.values)
    assert not any(token.startswith("##") for token in tokens.values)


def test_words_and_numbers(word_pieces: Path, byte_level: Path) -> None:
    terms = tokenizer_words("terms", str(word_pieces), "words-and-numbers")
    assert terms.values == ("42", "a", "blue", "green", "red")
    assert terms.joiner == " "
    assert alphabet_from_json("terms", terms.to_json()) == terms
    marked = tokenizer_words("terms", str(byte_level), "words-and-numbers")
    assert marked.values == ("7", "b", "r", "re", "red")  # not "12", which no space begins


def test_tokenizer_is_kept_as_a_reference(byte_level: Path) -> None:
    words = tokenizer_words("words", str(byte_level), "whole-words")
    data = words.to_json()
    assert data.keys() == {"kind", "tokenizer", "sha256"}
    assert alphabet_from_json("words", data) == words
    with pytest.raises(SpaceError, match="has another vocabulary than the canaries"):
        alphabet_from_json("words", {**data, "sha256": "0"})


def test_a_tokenizer_that_loads_and_cannot_be_used_is_named(byte_level: Path, tmp_path: Path) -> None:
    for file in byte_level.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "model_max_length": []}))
    with pytest.raises(SpaceError, match=r"cannot be used \(.*\): save it again"):
        tokenizer_words("tokens", str(tmp_path), "tokens")

"""The randomness space: sizes, order, filling, uniform samples, bad templates."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from leakage_tasks.canaries.alphabets import Alphabet, word_list
from leakage_tasks.canaries.spaces import Space, parse_template, slot_names
from leakage_tasks.core.errors import SpaceError

PIECE = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
ALPHABET = st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=6, unique=True).map(
    lambda values: Alphabet("mine", tuple(values))
)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    slots = tuple(draw(st.lists(ALPHABET, min_size=1, max_size=5)))
    return Space(tuple(draw(PIECE) for _ in range(len(slots) + 1)), slots)


@given(spaces(), st.data())
def test_index_and_at_are_inverse(space: Space, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, space.size - 1))
    assert space.index(space.at(place)) == place


@given(spaces())
def test_enumerate_gives_every_filling_once_in_order(space: Space) -> None:
    fillings = list(space.enumerate())
    assert len(set(fillings)) == len(fillings) == space.size
    assert [space.index(filling) for filling in fillings] == list(range(space.size))


@given(spaces())
def test_texts_are_those_of_all_fillings(space: Space) -> None:
    assert list(space.texts()) == [space.fill(filling) for filling in space.enumerate()]


@given(spaces(), st.integers())
def test_fill_is_pieces_and_values(space: Space, seed: int) -> None:
    (filling,) = space.sample(1, seed)
    text = space.fill(filling)
    assert text.startswith(space.prefix)
    assert len(text) == sum(map(len, space.pieces)) + sum(map(len, filling))
    for piece, value in zip(space.pieces, filling, strict=False):
        assert text.startswith(piece + value)
        text = text[len(piece + value) :]
    assert text == space.pieces[-1]


@given(st.lists(st.tuples(PIECE, st.integers(1, 4)), min_size=1, max_size=4), PIECE)
def test_any_literal_text_survives_a_template(parts: list[tuple[str, int]], end: str) -> None:
    def escaped(text: str) -> str:
        return text.replace("{", "{{").replace("}", "}}")

    template = "".join(f"{escaped(piece)}{{digits:{count}}}" for piece, count in parts) + escaped(end)
    space = parse_template(template)
    assert space.fill(["7"] * len(space.slots)) == "".join(piece + "7" * count for piece, count in parts) + end
    assert space.size == 10 ** sum(count for _, count in parts)


def test_sizes_are_exact_beyond_floats() -> None:
    assert parse_template("{digits:400}").size == 10**400


def test_slots_anywhere_and_joined_words() -> None:
    space = parse_template("{colour:2} a {digits}", {"colour": word_list("colour", ["red", "blue"])})
    assert space.fill(["red", "blue", "3"]) == "red blue a 3"
    assert space.prefix == ""


def test_samples_are_uniform_and_repeatable() -> None:
    space = parse_template("{digits:2}{hex}", {})
    draws = space.sample(20_000, seed=0)
    assert draws == space.sample(20_000, seed=0) != space.sample(20_000, seed=1)
    first = Counter(filling[0] for filling in draws)
    last = Counter(filling[2] for filling in draws)
    assert chisquare([first[value] for value in space.slots[0].values]).pvalue > 0.001
    assert chisquare([last[value] for value in space.slots[2].values]).pvalue > 0.001


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("no slot", "has no slot"),
        ("{{digits}}", "has no slot"),
        ("", "has no slot"),
        ("{colour}", "unknown space 'colour'"),
        ("{words:3}", "a tokenizer's"),
        ("{}", "unknown space ''"),
        ("{digits:0}", "a count from 1"),
        ("{digits:}", "a count from 1"),
        ("{digits:-1}", "a count from 1"),
        ("{digits:x}", "a count from 1"),
        ("{digits:٣}", "a count from 1"),
        ("{digits:99999999999999999999}", "a count from 1"),
        ("{digits", "single '{' at 0"),
        ("{digits} }", "single '}' at 9"),
    ],
)
def test_bad_templates(template: str, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        parse_template(template)


def test_fillings_outside_the_space() -> None:
    space = parse_template("{digits:2}")
    with pytest.raises(SpaceError, match="'x' is not in alphabet 'digits'"):
        space.fill(["1", "x"])
    with pytest.raises(SpaceError, match="filling of 3 slots for a template of 2"):
        space.index(["1", "2", "3"])
    for place in (-1, 100):
        with pytest.raises(SpaceError, match="outside a space of 100"):
            space.at(place)


def test_slot_names_in_order() -> None:
    assert slot_names("{a:2} {{b}} {c} {a}") == ["a", "c"]


@pytest.mark.parametrize(
    ("template", "early"),
    [
        ("{v}", True),
        ("{v}.", False),
        ("{v}b", True),
        ("{v} {v}", True),
        ("{v}{digits}", False),
        ("{v}{w}", True),
        ("{digits:3}", False),
        ("a {v} {digits}.", False),
    ],
)
def test_a_text_may_be_the_beginning_of_another(template, early):
    values = {"v": Alphabet("v", ("b", "ab", "a", "abb")), "w": Alphabet("w", ("b", "c"))}
    space = parse_template(template, values)
    texts = [space.fill(filling) for filling in space.enumerate()]
    assert early is any(one != other and other.startswith(one) for one in texts for other in texts)
    assert space.ends_early or not early

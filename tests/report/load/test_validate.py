from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.records import WrongField, finite, kind_of
from leakage_tasks.report.load.validate import all_printable, printable

ANY = st.text(st.characters(exclude_categories=()))


@given(ANY)
def test_a_text_comes_out_as_one_line_that_every_unicode_terminal_shows(text: str):
    found = printable(text)
    assert found.isprintable()
    assert found.encode("utf-8").decode("utf-8") == found
    assert len(found) == len(text)


@given(ANY.filter(str.isprintable))
def test_what_can_be_shown_stays(text: str):
    assert printable(text) == text


def test_texts_at_any_depth_are_made_printable():
    assert all_printable({"a\x1b": ["b\n", 1, None, {"c": "d\ud800"}]}) == {
        "a\ufffd": ["b ", 1, None, {"c": "d\ufffd"}]
    }


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1" + "0" * 309, "true", "null", '"1"', "[]"])
def test_what_is_no_finite_number_is_refused_by_its_field(text: str):
    with pytest.raises(WrongField, match="^rows.a: expected a "):
        finite(json.loads(text), "rows.a")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "nothing"),
        (True, "true or false"),
        (3, "a number"),
        ("my secret", "text"),
        ([], "a list"),
        ({}, "an object"),
    ],
)
def test_a_kind_is_told_without_the_value(value: object, words: str):
    assert kind_of(value) == words

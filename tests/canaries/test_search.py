"""Finding many texts in rows and in a running text, against a plain search."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.canaries.search import Finder, Span, spans_in_blocks, spans_in_rows

SHORT = st.text("ab\n", min_size=1, max_size=4)


def plainly(text: str, wanted: set[str]) -> list[Span]:
    """The longest wanted text at every place, by brute force."""
    found = []
    for start in range(len(text)):
        fits = [each for each in wanted if text.startswith(each, start)]
        if fits:
            best = max(fits, key=len)
            end = start + len(best)
            whole = text[start - 1 : start] in ("", "\n") * (start == 0) + ("\n",) and text[end : end + 1] in ("", "\n")
            found.append(Span(start, end, best, whole))
    return found


@given(st.lists(st.text("ab\n", max_size=9), max_size=12), st.sets(SHORT, min_size=1, max_size=5))
def test_blocks_of_any_size(blocks: list[str], wanted: set[str]) -> None:
    found = list(spans_in_blocks(((block,) for block in blocks), Finder(wanted)))
    assert found == plainly("".join(blocks), wanted)


@given(st.lists(st.lists(st.text("ab", max_size=6), min_size=1, max_size=3).map(tuple), max_size=6), st.sets(SHORT))
def test_rows_and_turns(rows: list[tuple[str, ...]], wanted: set[str]) -> None:
    found = list(spans_in_rows(rows, Finder(wanted)))
    expected = []
    base = 0
    for turn in (turn for row in rows for turn in row):
        for span in plainly(turn, wanted):
            expected.append(Span(base + span.start, base + span.end, span.text, span.text == turn))
        base += len(turn)
    assert found == expected


def test_long_texts_with_one_beginning() -> None:
    texts = [f"The random number of word {number} is {number:09}." for number in range(200)]
    random.Random(0).shuffle(texts)
    found = spans_in_rows([("x" + texts[5] + texts[7][:-1],), (texts[9],)], Finder(texts))
    assert [(span.text, span.whole) for span in found] == [(texts[5], False), (texts[9], True)]


@pytest.mark.parametrize("text", ["", "a\nb"])
def test_nothing_wanted_nothing_found(text: str) -> None:
    assert list(Finder([]).find(text)) == []

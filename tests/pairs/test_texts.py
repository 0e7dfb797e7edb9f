"""A long text tokenized in blocks, against the same text tokenized at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from leakage_tasks.pairs.texts import IntArray, running_tokens, sliding_windows
from tests.oracles import letters, merging

WORDS = ["the pin is", " 0042", "\n\n", "  ", "code ab7", "é", "🙂", ".", "12345678", "\n "]


def encode(text: str) -> tuple[IntArray, IntArray]:
    found = merging()(text, add_special_tokens=False, return_offsets_mapping=True)
    starts = [start for start, _ in found["offset_mapping"]]
    return np.array(found["input_ids"], dtype=np.int64), np.array(starts, dtype=np.int64)


def blocks(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def joined(text: str, size: int, seam: int) -> list[int]:
    return [int(token) for piece in running_tokens(encode, blocks(text, size), seam) for token in piece]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=120), st.integers(1, 90), st.integers(48, 80))
def test_blocks_leave_no_trace(words: list[str], size: int, seam: int) -> None:
    text = "".join(words)
    assert joined(text, size, seam) == encode(text)[0].tolist()


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 40))
def test_a_seam_that_does_not_fit_makes_blocks_one(length: int, size: int) -> None:
    # A tokenizer whose tokens depend on where its text starts: threes, counted from there.
    def threes(text: str) -> tuple[IntArray, IntArray]:
        starts = np.arange(0, len(text), 3)
        return np.array([len(text[start : start + 3]) for start in starts], dtype=np.int64), starts

    pieces = list(running_tokens(threes, blocks("x" * length, size), 4))
    assert sum(int(piece.sum()) for piece in pieces) == length


def test_no_text_is_no_tokens() -> None:
    assert joined("", 5, 8) == []


def test_single_characters_need_no_seam_at_all() -> None:
    def spell(text: str) -> tuple[IntArray, IntArray]:
        return np.array(letters()(text, add_special_tokens=False)["input_ids"], dtype=np.int64), np.arange(len(text))

    text = "the pin is 42. " * 9
    found = [int(token) for piece in running_tokens(spell, blocks(text, 7), 4) for token in piece]
    assert found == letters()(text, add_special_tokens=False)["input_ids"]


@given(
    st.lists(st.lists(st.lists(st.integers(0, 9), max_size=8), max_size=5), max_size=3),
    st.integers(1, 6),
    st.integers(1, 9),
)
def test_sliding_windows_are_those_of_the_whole_text(texts: list[list[list[int]]], width: int, stride: int) -> None:
    cut = sliding_windows(([np.array(piece, dtype=np.int64) for piece in pieces] for pieces in texts), width, stride)
    expected = []
    for number, pieces in enumerate(texts):
        text = [token for piece in pieces for token in piece]
        last = len(text) - width
        starts = sorted({*range(0, last + 1, stride), last}) if last >= 0 else []
        expected += [(number, start, text[start : start + width]) for start in starts]
    found = zip(cut.documents.tolist(), cut.offsets.tolist(), cut.tokens.tolist(), strict=True)
    assert list(found) == expected
    assert cut.texts == len(texts)

"""Word vectors from text files, in both formats: numbers exactly as written, and what is wrong named with its line."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.word_vectors import read_word_vectors

GLOVE = "the 0.5 -1 2e-3\nOslo 1 2 3\noslo 4 5 6\n. . . 7 8 9\nthe 9 9 9\n"
FASTTEXT = "5 3\n" + GLOVE


def written(folder, text, name="vectors.txt"):
    path = folder / name
    content = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("text", [GLOVE, FASTTEXT], ids=["glove", "fasttext"])
@pytest.mark.parametrize("name", ["vectors.vec", "vectors.txt.gz"])
def test_either_format_gzipped_or_not(text, name, tmp_path):
    read = read_word_vectors(written(tmp_path, text, name), {"the", "rain"})
    assert read.size == 3
    assert {word: vector.tolist() for word, vector in read.vectors.items()} == {
        "the": np.array([0.5, -1, 2e-3], dtype=np.float32).tolist()
    }


def test_a_word_is_looked_up_as_written_then_in_lower_case(tmp_path):
    found = read_word_vectors(written(tmp_path, FASTTEXT), {"Oslo", "oslo", "OSLO", "The"}).vectors
    assert {word: vector[0] for word, vector in found.items()} == {"Oslo": 1, "oslo": 4, "OSLO": 4, "The": 0.5}


def test_a_word_may_hold_spaces(tmp_path):
    found = read_word_vectors(written(tmp_path, GLOVE), {". . .", "."}).vectors
    assert {word: vector.tolist() for word, vector in found.items()} == {". . .": [7, 8, 9]}


def test_ends_of_lines_and_blank_lines_do_not_matter(tmp_path):
    text = FASTTEXT.replace("\n", " \r\n").replace("Oslo", "\r\nOslo")
    assert read_word_vectors(written(tmp_path, text), {"Oslo"}).vectors["Oslo"].tolist() == [1, 2, 3]


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=6))
def test_numbers_are_read_exactly(tmp_path_factory, numbers):
    path = written(tmp_path_factory.mktemp("vectors"), f"word {' '.join(map(repr, numbers))}\n")
    assert read_word_vectors(path, {"word"}).vectors["word"].tolist() == numbers


def test_lines_of_other_words_are_not_turned_into_numbers(tmp_path):
    assert list(read_word_vectors(written(tmp_path, "the 1 2\nrain x y\n"), {"the"}).vectors) == ["the"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("the 1 2 3\noslo 1 2\n", r"vectors.txt:2: 3 fields: expected a word and 3 numbers"),
        ("3 3\nthe 1 2 3\n\noslo 1 2\nrome 1 2 3", r"vectors.txt:4: 3 fields"),
        ("rome 1 2\nthe 1 x\n", r"vectors.txt:2: contains a value that is not a finite number"),
        ("the 1 nan\n", r"vectors.txt:1: contains a value that is not a finite number"),
        (b"the 1 2\n\xff\xfe 1 2\n", r"vectors.txt:2: the word is not UTF-8"),
        ("3 2\nthe 1 2\nrome 1 2\n", r"vectors.txt: ends after 2 of the 3 words"),
        ("", r"vectors.txt:1: contains no vector"),
        ("the\nrome\n", r"vectors.txt:1: contains no vector"),
        ("5 0\n", r"vectors.txt:1: contains no vector"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text, named, tmp_path):
    with pytest.raises(OptionError, match=named):
        read_word_vectors(written(tmp_path, text), {"the"})


@pytest.mark.parametrize("cut", [slice(0, -4), slice(3, None)], ids=["cut short", "not gzip"])
def test_a_damaged_archive_is_one_line(cut, tmp_path):
    path = written(tmp_path, GLOVE, "vectors.vec.gz")
    path.write_bytes(path.read_bytes()[cut])
    with pytest.raises(OptionError, match=r"vectors.vec.gz: cannot read word vectors \(.+\): check"):
        read_word_vectors(path, {"the"})


@pytest.mark.parametrize("name", ["missing.vec", "missing.vec.gz", "."])
def test_a_path_that_cannot_be_read_is_named(name, tmp_path):
    with pytest.raises(OptionError, match="cannot read word vectors"):
        read_word_vectors(tmp_path / name, {"the"})

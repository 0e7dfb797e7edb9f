"""The challenge's guess files: written, read back and scored."""

from __future__ import annotations

import csv

import pytest

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.pairs.submission import (
    SuffixGuess,
    found_before,
    judged_guesses,
    read_submission,
    write_submission,
)

GUESSES = [
    SuffixGuess(4, (7, 8), 0.1),
    SuffixGuess(9, (50256, 0), 0.9),
    SuffixGuess(2, (3, 6), 0.5, 8.0),
    SuffixGuess(1, (3, 3), 0.5, 7.0),
    SuffixGuess(0, (1, 1), 0.5, 8.0),
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "guesses.csv"


def test_a_file_is_in_the_challenges_form_surest_first(path):
    write_submission(path, GUESSES)
    lines = ['9,"[50256,0]"', '1,"[3,3]"', '0,"[1,1]"', '2,"[3,6]"', '4,"[7,8]"']
    assert path.read_text() == "\n".join(["Example ID,Suffix Guess", *lines, ""])


def test_it_is_read_as_the_challenge_reads_it(path):
    write_submission(path, GUESSES)
    with path.open() as file:
        rows = [(int(row["Example ID"]), row["Suffix Guess"]) for row in csv.DictReader(file)]
    plain = [(pair, tuple(int(token) for token in guess[1:-1].split(","))) for pair, guess in rows]
    assert read_submission(path) == plain


def test_the_form_its_rules_show_is_read_too(path):
    path.write_text('Example ID, Suffix Guess\r\n8,          "[3, 6, 9]"\r\n12,         "[4, 2, 8]"\r\n')
    assert read_submission(path) == [(8, (3, 6, 9)), (12, (4, 2, 8))]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(LeakageError, match="make it first"):
        write_submission(tmp_path / "none" / "guesses.csv", GUESSES)
    assert list(tmp_path.iterdir()) == []


def test_an_error_on_the_way_leaves_the_older_file(path):
    def breaking():
        yield GUESSES[0]
        raise RuntimeError

    path.write_text("older")
    with pytest.raises(RuntimeError):
        write_submission(path, breaking())
    assert path.read_text() == "older"
    assert [found.name for found in path.parent.iterdir()] == [path.name]


HEADER = "Example ID,Suffix Guess\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 is '', expected 'Example ID,Suffix Guess'"),
        ("id,guess\n", "line 1 is 'id,guess', expected"),
        (HEADER + '1,"[2]"\n3\n', "line 3: 1 columns, expected"),
        (HEADER + "1,[2,3]\n", "line 2: 3 columns, expected an example's number and its tokens"),
        (HEADER + '1,"2,3"\n', "line 2: '1,2,3' holds no numbers"),
        (HEADER + '1,"{}"\n', "line 2: .* are not whole numbers from 0"),
        (HEADER + '1,"[2,-3]"\n', "line 2: .* are not whole numbers from 0"),
        (HEADER + '1.5,"[2]"\n', "line 2: .* are not whole numbers from 0"),
        (HEADER + '1,"[true]"\n', "line 2: .* are not whole numbers from 0"),
        (HEADER + '1,"[2]\n', "cannot be read as a submission .*give a CSV"),
    ],
)
def test_what_is_no_guess_is_refused_by_line(path, text, message):
    path.write_text(text)
    with pytest.raises(OptionError, match=message):
        read_submission(path)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_what_cannot_be_read_is_refused(path, content):
    if content:
        path.write_bytes(content)
    with pytest.raises(OptionError, match="guesses.csv: cannot be read as a submission"):
        read_submission(path)


def test_a_pair_counts_once_however_often_it_is_guessed():
    assert found_before([(1, True), (1, True), (1, False), (2, True), (3, False), (4, True)], 2) == 2


def test_several_guesses_for_a_pair_are_scored_in_turn():
    guesses = [(8, (3, 6)), (12, (4, 2)), (8, (3, 7)), (7, (1, 1))]
    suffixes = {8: (3, 7), 12: (4, 2), 7: (1, 1), 9: (0, 0)}
    judged = judged_guesses(guesses, suffixes)
    assert judged == [(8, False), (12, True), (8, True), (7, True)]
    assert [found_before(judged, wrong) for wrong in (1, 2)] == [0, 3]


@pytest.mark.parametrize(
    ("guesses", "message"),
    [
        ([(1, (2, 3)), (5, (2, 3))], "guess 2 is for example 5, which is not among the 1 pairs: check the split"),
        ([(1, (2,))], "guess 1, for example 1, has 1 tokens, expected 2"),
    ],
)
def test_a_guess_for_other_pairs_is_not_scored(guesses, message):
    with pytest.raises(OptionError, match=message):
        judged_guesses(guesses, {1: (2, 3)})


def test_there_must_be_pairs():
    with pytest.raises(OptionError, match="give one or more"):
        judged_guesses([], {})

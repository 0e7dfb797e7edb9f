"""Files of guesses scored: by hand, against each other, and as the run that wrote them."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import OptionError
from leakage_tasks.pairs import Pair
from leakage_tasks.pairs.submission import SuffixGuess, write_submission
from leakage_tasks.report.guesses import guesses_text, score_guesses
from leakage_tasks.stats.intervals import clopper_pearson

PAIRS = [Pair(40 + place, (1, 2), (3, place)) for place in range(20)]
"""Their ids are rows of a larger data set, their examples count from 0."""


def write(path, *guesses):
    """A file of ``(example, right)``, the surest first."""
    rows = [f'{pair},"[3,{pair if right else 99}]"' for pair, right in guesses]
    path.write_text("\n".join(["Example ID,Suffix Guess", *rows, ""]))
    return path


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "one.csv", (3, True), (4, False), (4, True), (5, True), (6, False), (3, True), (7, True))


def test_recall_goes_by_the_surest_guess_of_a_pair(file):
    (found,) = score_guesses([file], PAIRS)
    assert (found.guesses, found.pairs_guessed, found.n) == (7, 5, 20)
    assert found.recall == 3 / 20
    assert found.recall_interval == pytest.approx((0.0321, 0.3789), abs=1e-4)


@pytest.mark.parametrize(("wrong", "found"), [(1, 1), (2, 3), (3, 4)])
def test_an_early_stop_counts_any_right_guess_before_it(file, wrong, found):
    (scored,) = score_guesses([file], PAIRS, wrong)
    low, high = scored.recall_early_stop_interval
    assert scored.recall_early_stop == found / 20
    assert low <= scored.recall_early_stop <= high


def test_unless_given_a_tenth_of_the_pairs_may_be_wrong(file):
    assert score_guesses([file], PAIRS)[0].wrong == 2


def test_a_file_is_set_beside_the_first_pair_by_pair(tmp_path):
    first = write(tmp_path / "first.csv", *((pair, pair < 2) for pair in range(20)))
    other = write(tmp_path / "other.csv", *((pair, pair > 0) for pair in range(10)))
    one, two = score_guesses([first, other], PAIRS)
    assert one.more_than_first is None
    # Eight pairs only the other finds, one only the first: both tails of nine fair coins.
    assert two.more_than_first.value == pytest.approx(7 / 20)
    assert two.more_than_first.p == pytest.approx(2 * (1 + 9) / 2**9)


def test_intervals_and_tests_are_by_document(tmp_path):
    """Four pairs of each document that are found together are no more than one of them."""
    pairs = [replace(pair, document=place // 4) for place, pair in enumerate(PAIRS)]
    first = write(tmp_path / "first.csv", *((pair, pair < 4) for pair in range(20)))
    other = write(tmp_path / "other.csv", *((pair, pair >= 4) for pair in range(20)))
    one, two = score_guesses([first, other], pairs)
    low, high = one.recall_interval
    exact = clopper_pearson(1, 5)
    assert low <= exact[0]
    assert high >= exact[1]
    assert one.recall_early_stop_interval[1] >= 0.6
    # One document is lost and four are gained: 2 · (1 + 5) of the 2^5 signs of documents change as much.
    assert two.more_than_first.p == pytest.approx(12 / 32)


@given(st.permutations(range(20)), st.integers(0, 20))
def test_recall_of_one_guess_a_pair_does_not_depend_on_their_order(tmp_path_factory, order, right):
    path = write(tmp_path_factory.mktemp("any") / "a.csv", *((pair, pair < right) for pair in order))
    assert score_guesses([path], PAIRS)[0].recall == right / 20


def test_no_guess_finds_nothing(tmp_path):
    (found,) = score_guesses([write(tmp_path / "none.csv")], PAIRS)
    assert (found.recall, found.recall_early_stop) == (0, 0)
    # None of 20 pairs: by Clopper and Pearson up to 1 − 0.025^(1/20) may be found.
    assert found.recall_early_stop_interval == pytest.approx((0, 1 - 0.025 ** (1 / 20)))


@pytest.mark.parametrize(
    ("guess", "message"),
    [
        (SuffixGuess(20, (3, 4), 1.0), "one.csv: guess 1 is for example 20, which is not among the 20 pairs: check"),
        (SuffixGuess(2, (3, 4, 5), 1.0), "one.csv: guess 1, for example 2, has 3 tokens, expected 2: score it"),
    ],
)
def test_guesses_for_other_pairs_are_refused_by_file(tmp_path, guess, message):
    write_submission(tmp_path / "one.csv", [guess])
    with pytest.raises(OptionError, match=message):
        score_guesses([tmp_path / "one.csv"], PAIRS)


def test_at_least_one_guess_may_be_wrong(file):
    with pytest.raises(OptionError, match="^--wrong 0: allow 1 wrong guess or more"):
        score_guesses([file], PAIRS, 0)


def test_the_table_has_a_row_a_file_and_says_what_its_columns_are(file, tmp_path):
    other = write(tmp_path / "two.csv", (3, True))
    heads, one, two, _, recall, early, more = guesses_text(score_guesses([file, other], PAIRS)).splitlines()
    assert one.split()[1:6] == ["7", "5", "of", "20", "0.150"]
    assert two.endswith("  0.5")
    assert " ".join(heads.split()).endswith("early stop 95 % interval more than the first 95 % interval p")
    assert early.startswith("early stop: share found before wrong guess number 2,")
    assert (recall[:7], more[:5]) == ("recall:", "more ")


def test_one_file_is_compared_with_none(file):
    assert "first" not in guesses_text(score_guesses([file], PAIRS))[len(str(file)) :].replace("surest first", "")


def test_control_characters_in_a_files_name_reach_no_terminal(file):
    (found,) = score_guesses([file], PAIRS)
    assert "\x1b" not in guesses_text([replace(found, file="\x1b[2Jx")])


def test_all_of_it_is_json(file):
    (found,) = score_guesses([file], PAIRS)
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert data["recall_early_stop"] == found.recall_early_stop
    assert data["more_than_first"] is None

"""Findings as records."""

import json
import math

import pytest

from leakage_tasks.attacks.finding import Finding, Guess, finding_from_json, grade_guesses
from leakage_tasks.core.records import WrongField

GUESSES = (Guess(("1", "2"), "pin 12", 3.5), Guess(("1", "3"), "pin 13", 4.5))


@pytest.mark.parametrize("fields", [{}, {"family": "typical"}, {"uniform": True}, {"uniform": False}], ids=str)
def test_a_finding_survives_json_and_leaves_out_what_it_does_not_state(fields):
    known = {"rank": 3, "method": "exact", **fields}
    finding = Finding("c", "exposure", True, 10, "random", 6.6, GUESSES, 1, (True, False), 2, **known)
    assert finding_from_json(finding.to_json()) == finding
    written = json.loads(finding.to_json())
    assert written["guesses"][0]["text"] == "pin 12"
    assert written["exposure"] == finding.exposure
    assert {"family", "uniform"} & written.keys() == fields.keys()


def test_the_hash_of_settings_keeps_its_old_name():
    finding = Finding("c", "x", True, 1, "random", 6.6, settings_hash="abc")
    assert json.loads(finding.to_json())["settings"] == finding.settings == "abc"
    assert finding_from_json(finding.to_json()).settings_hash == "abc"


def test_json_is_strict():
    with pytest.raises(ValueError, match="not JSON compliant"):
        Finding("c", "x", True, 1, "random", 6.6, rank=math.nan).to_json()


def test_exposure_is_log_size_less_log_rank():
    assert Finding("c", "x", True, 1, "random", math.log2(10**9), rank=1).exposure == pytest.approx(29.897, abs=1e-3)
    assert Finding("c", "x", True, 1, "random", 10.0, rank=4).exposure == 8.0
    assert Finding("c", "x", True, 1, "random", 10.0).exposure is None


def test_marks_compare_the_best_guess_and_find_the_secret():
    assert grade_guesses(GUESSES, ("1", "3")) == {"guesses": GUESSES, "correct": (True, False), "place": 2}
    assert grade_guesses(GUESSES, ("9", "9")) == {"guesses": GUESSES, "correct": (False, False), "place": None}
    assert grade_guesses([], ("1", "3")) == {"guesses": (), "correct": (False, False)}


def test_a_guess_with_the_secret_s_text_is_right():
    guesses = (Guess(("a", "ab"), "aab", 2.0), Guess(("aa", "b"), "aab", 2.0), Guess(("a", "b"), "ab", 3.0))
    assert grade_guesses(guesses, ("aa", "b")) == {"guesses": guesses, "correct": (True, True), "place": 1}
    assert grade_guesses(guesses, ("a", "b")) == {"guesses": guesses, "correct": (True, False), "place": 3}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rank", 0),
        ("rank", float("nan")),
        ("rank", 10**400),
        ("log_perplexity", float("-inf")),
        ("repetitions", "x"),
        ("model_calls", "x"),
        ("canary", ["x"]),
        ("method", "guessed"),
        ("log2_size", None),
        ("supporting", "2"),
        ("proven", None),
        ("planted", "yes"),
        ("extra", None),
        ("family", 3),
        ("uniform", 1),
        ("correct", ["yes"]),
        ("guesses", [{"filling": ["1"], "text": "1", "score": "y"}]),
    ],
)
def test_what_is_no_finding_is_refused(field, value):
    data = json.loads(Finding("c", "a", True, 1, "random", 3.0, rank=2.0).to_json())
    with pytest.raises(WrongField, match=rf"^{field}[\w.]*: expected .+, found "):
        finding_from_json(json.dumps({**data, field: value}))

"""Making canaries: counts, own words, distinct secrets, supporting ones, stability."""

from __future__ import annotations

import random
import re
import warnings
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from leakage_tasks.canaries import make_canaries, word_list
from leakage_tasks.canaries.generate import CONSONANTS, VOWELS, unique_word
from leakage_tasks.core.errors import LeakageError

TEMPLATE = "The random number of {unique} is {digits:9}."
PIN = "The pin of {unique} is {digits:4}."


def test_counts_repetitions_and_order() -> None:
    canaries = make_canaries(TEMPLATE, 4, repetitions=(1, 10), controls=3)
    assert [canary.id for canary in canaries] == [
        *(f"canary-{i}" for i in range(4)),
        *(f"control-{i}" for i in range(3)),
    ]
    assert [canary.repetitions for canary in canaries] == [1, 10, 1, 10, 0, 0, 0]
    assert [canary.planted for canary in canaries] == [True] * 4 + [False] * 3
    assert all(re.fullmatch(r"The random number of [a-z]{6} is [0-9]{9}\.", canary.text) for canary in canaries)


def test_every_canary_has_a_word_and_a_secret_of_its_own() -> None:
    canaries = make_canaries(PIN, 3000, controls=3000)
    assert len({canary.template for canary in canaries}) == 6000
    assert len({canary.secret for canary in canaries}) == 6000


@settings(max_examples=20)
@given(st.integers(), st.integers(1, 6), st.integers(0, 6), st.integers(0, 6))
def test_more_canaries_and_controls_change_no_earlier_one(seed: int, count: int, more: int, controls: int) -> None:
    few = make_canaries(TEMPLATE, count, seed=seed)
    many = make_canaries(TEMPLATE, count + more, controls=controls, seed=seed)
    assert many[:count] == few
    assert make_canaries(TEMPLATE, count + more, controls=controls, seed=seed) == many


def test_seeds_and_prefixes_differ() -> None:
    secrets = {make_canaries(TEMPLATE, 1, seed=seed)[0].secret for seed in range(50)}
    assert len(secrets) == 50
    (one,), (other,) = make_canaries(TEMPLATE, 1, id_prefix="a-"), make_canaries(TEMPLATE, 1, id_prefix="b-")
    assert one.id == "a-canary-0"
    assert (one.template, one.secret) != (other.template, other.secret)


def test_secrets_are_uniform() -> None:
    canaries = make_canaries(TEMPLATE, 2000, controls=2000, seed=1)
    for group in (canaries[:2000], canaries[2000:]):
        counts = Counter(digit for canary in group for digit in canary.secret)
        assert chisquare([counts[digit] for digit in "0123456789"]).pvalue > 0.001


def test_a_small_space_is_used_up_before_secrets_repeat() -> None:
    canaries = make_canaries("{unique}: {digits}", 6, controls=4)
    assert sorted(canary.secret[0] for canary in canaries) == list("0123456789")
    with pytest.warns(UserWarning, match="10 fillings for 12 canaries: some share a secret"):
        more = make_canaries("{unique}: {digits}", 8, controls=4)
    assert Counter(canary.secret[0] for canary in more).most_common(1)[0][1] == 2


def test_controls_never_equal_a_planted_text() -> None:
    with pytest.raises(LeakageError, match="10 fillings, too few to keep 4 controls apart from 8"):
        make_canaries("pin {digits}", 8, controls=4)


@pytest.mark.parametrize(
    ("template", "message"),
    [("pin {digits:4}", "has no {unique}"), ("{digits:4} for {unique}", "{unique} only after its first slot")],
)
def test_a_shared_prefix_is_warned_of(template: str, message: str) -> None:
    with pytest.warns(UserWarning, match=message):
        make_canaries(template, 2)


def test_no_warning_where_none_is_due() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_canaries(TEMPLATE, 5, controls=5)
        make_canaries("pin {digits:4}", 1, controls=5)


def test_known_part_gets_the_same_word() -> None:
    (canary,) = make_canaries(PIN, 1, known="{unique} is {digits:4}")
    assert canary.attack_space.fill(canary.secret) in canary.text


def test_braces_stay_braces() -> None:
    (canary,) = make_canaries("{{unique}} {unique} {digits}", 1)
    assert canary.text.startswith("{unique} ")


def test_only_alphabets_in_use_are_kept() -> None:
    lists = {"city": word_list("city", ["Rome", "Oslo"]), "other": word_list("other", ["x"])}
    (canary,) = make_canaries("{city:2}", 1, alphabets=lists)
    assert set(canary.alphabets) == {"city"}


def test_supporting_canaries() -> None:
    canaries = make_canaries(
        TEMPLATE, 2, repetitions=(1, 10), controls=1, label="b", supporting=3, supporting_labels=["a", "b", "c"]
    )
    assert [canary.id for canary in canaries[:5]] == [
        "canary-0", "canary-0-supporting-0", "canary-0-supporting-1", "canary-0-supporting-2", "canary-1",
    ]  # fmt: skip
    for own, helpers in ((canaries[0], canaries[1:4]), (canaries[4], canaries[5:8])):
        assert len({canary.secret for canary in (own, *helpers)}) == 4
        for helper in helpers:
            assert helper.secret[:5] == own.secret[:5]
            assert helper.template == own.template
            assert (helper.kind, helper.supports, helper.repetitions) == ("supporting", own.id, own.repetitions)
        assert [helper.label for helper in helpers] == ["a", "c", "a"]
    assert canaries[-1].id == "control-0"
    assert canaries[0] == make_canaries(TEMPLATE, 1, label="b")[0]


def test_supporting_slots() -> None:
    own, helper = make_canaries(PIN, 1, label="a", supporting=1, supporting_labels=["b"], supporting_slots=1)
    assert helper.secret[:3] == own.secret[:3]
    assert helper.secret[3] != own.secret[3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 0}, "both 0"),
        ({"count": -1}, "--count is -1"),
        ({"controls": -1}, "--controls is -1"),
        ({"repetitions": ()}, "--repetitions"),
        ({"repetitions": (1, 0)}, "--repetitions is '1,0'"),
        ({"template": "no slot"}, "has no slot"),
        ({"template": "{unique}"}, "has no slot"),
        ({"template": "{unique:2} {digits}"}, "takes no count"),
        ({"template": "{unique} {nope}"}, "template '{unique} {nope}': unknown space 'nope'"),
        ({"alphabets": {"unique": word_list("unique", ["x"])}}, "cannot be called 'unique'"),
        ({"known": "elsewhere {digits:4}"}, "not a part"),
        ({"supporting": 1}, "give --label"),
        ({"supporting": 1, "label": "a"}, "--supporting-labels"),
        ({"supporting": 1, "label": "a", "supporting_labels": ["a"]}, "other than 'a'"),
        ({"supporting_labels": ["a"]}, "--supporting N"),
        ({"supporting": 1, "label": "a", "supporting_labels": ["b"], "supporting_slots": 5}, "give 1 to 4"),
        ({"supporting": -1}, "--supporting is -1"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(LeakageError, match=re.escape(message)):
        make_canaries(**{"template": PIN, "count": 1, **arguments})


def test_one_valued_slots_have_no_supporting_canaries() -> None:
    only = {"only": word_list("only", ["x"])}
    with pytest.raises(LeakageError, match="no other values"):
        make_canaries("{only}", 1, alphabets=only, label="a", supporting=1, supporting_labels=["b"])


def test_words_can_be_said_and_never_run_out() -> None:
    word = unique_word(random.Random(0), ())
    assert re.fullmatch(f"([{CONSONANTS}][{VOWELS}]){{3}}", word)

    class ShortOnesTaken:
        def __contains__(self, word: object) -> bool:
            return len(str(word)) <= 6

    assert len(unique_word(random.Random(0), ShortOnesTaken())) == 8

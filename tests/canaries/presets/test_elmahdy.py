"""Ten random words, their supporting canaries, their controls."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from leakage_tasks.canaries import Canary, elmahdy_canaries, read_manifest, word_list, write_manifest
from leakage_tasks.core.errors import OptionError

WORDS = word_list("words", [f"w{chr(97 + place)}" for place in range(20)])
CLASSES = ["rare", "b", "c", "d"]


def make(count: int = 1, **options: Any) -> list[Canary]:
    return elmahdy_canaries(WORDS, count, **{"label": "rare", "classes": CLASSES, **options})


def test_words_are_uniform_at_every_place() -> None:
    texts = [canary.text.split(" ") for canary in make(2000, supporting="none")]
    assert {len(words) for words in texts} == {10}
    for place in (0, 4, 8, 9):
        counts = Counter(words[place] for words in texts)
        assert chisquare([counts[word] for word in WORDS.values]).pvalue > 0.001


@given(unknown=st.integers(1, 10), seed=st.integers(0, 99))
def test_the_words_are_the_same_whatever_is_unknown(unknown: int, seed: int) -> None:
    (canary,) = make(unknown=unknown, seed=seed, supporting="none")
    assert canary.text == make(seed=seed, supporting="none")[0].text
    assert canary.secret == tuple(canary.text.split(" ")[10 - unknown :])
    assert canary.space.size == 20**unknown


def test_a_template_shows_the_known_words() -> None:
    (canary,) = make(unknown=2, supporting="none")
    assert canary.template == " ".join(canary.text.split(" ")[:8]) + " {words:2}"
    assert (canary.label, canary.repetitions, canary.kind) == ("rare", 100, "random")


def test_supporting_canaries_in_all_other_classes() -> None:
    own, *helpers = make(unknown=2, supporting_repetitions=3)
    assert [helper.label for helper in helpers] == ["b", "c", "d"]
    assert all(helper.template == own.template and helper.supports == own.id for helper in helpers)
    assert len({own.secret, *(helper.secret for helper in helpers)}) == 4
    assert {(helper.kind, helper.repetitions) for helper in helpers} == {("supporting", 3)}


def test_the_one_class_is_random() -> None:
    labels = Counter(canary.label for canary in make(300, supporting="one") if canary.kind == "supporting")
    assert labels.keys() == {"b", "c", "d"}
    assert chisquare(list(labels.values())).pvalue > 0.001


def test_so_many_classes() -> None:
    families = make(2, supporting=2)
    for own in ("canary-0", "canary-1"):
        labels = {canary.label for canary in families if canary.supports == own}
        assert len(labels) == 2
        assert labels < {"b", "c", "d"}


def test_controls_have_words_of_their_own() -> None:
    *families, one, two = make(controls=2, unknown=3)
    assert [(control.planted, control.repetitions, control.label) for control in (one, two)] == [(False, 0, "rare")] * 2
    assert len({canary.template for canary in (families[0], one, two)}) == 3


def test_more_canaries_change_no_earlier_one() -> None:
    few, many = make(2, controls=1), make(5, controls=3)
    assert set(few) <= set(many)
    assert make(2, seed=1)[0] != few[0]
    assert make(2, controls=1) == few


def test_repetitions_are_dealt_out() -> None:
    assert [canary.repetitions for canary in make(3, repetitions=(1, 5), supporting="none")] == [1, 5, 1]


def test_a_canary_without_a_class() -> None:
    (canary,) = elmahdy_canaries(WORDS, supporting="none")
    assert canary.label is None


def test_braces_of_an_alphabet_stay_braces() -> None:
    odd = word_list("odd", ["{a}", "b}"])
    (canary,) = elmahdy_canaries(odd, supporting="none", unknown=1)
    assert set(canary.text.split(" ")) <= set(odd.values)
    assert len(canary.text.split(" ")) == 10


def test_organic_canaries_end_in_slots() -> None:
    sentences = ["I like wa and {wb}.", "No wc wd"]
    one, two, *controls = make(2, sentences=sentences, supporting="none", controls=3, unknown=1)
    assert (one.template, one.secret, one.kind) == ("I like wa and {{{words}}}.", ("wb",), "organic")
    assert two.text == "No wc wd"
    assert [control.template for control in controls] == [one.template, two.template, one.template]
    assert not {control.text for control in controls} & {one.text, two.text}


def test_controls_of_organic_canaries_are_uniform_over_the_rest() -> None:
    _, *controls = make(1, sentences=["It is wa"], supporting="none", controls=1900)
    counts = Counter(control.secret[0] for control in controls)
    assert "wa" not in counts
    assert chisquare([counts[word] for word in WORDS.values[1:]]).pvalue > 0.001


def test_a_manifest_keeps_them(tmp_path: Path) -> None:
    canaries = make(2, controls=2, unknown=3)
    write_manifest(canaries, tmp_path / "m.jsonl")
    assert read_manifest(tmp_path / "m.jsonl") == canaries


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unknown": 0}, "--unknown is 0: give 1 to 10"),
        ({"unknown": 11}, "--unknown is 11"),
        ({"count": 0}, "--count is 0 and --controls 0"),
        ({"repetitions": (0,)}, "--repetitions is '0'"),
        ({"supporting_repetitions": 0}, "--supporting-repetitions is 0"),
        ({"supporting": "some"}, "--supporting is 'some': give all, one, none or a number"),
        ({"supporting": -1}, "--supporting is -1"),
        ({"supporting": 4}, "--supporting is 4, but there are 3 classes other than 'rare'"),
        ({"label": None}, "--supporting needs the canaries' class and other classes"),
        ({"classes": ["rare"]}, "--supporting needs the canaries' class and other classes"),
        ({"sentences": ["a wa"], "count": 2}, "--count is 2, but there are 1 sentences"),
        ({"sentences": ["a tree"]}, "alphabet 'words' has no whole token 'tree'"),
        ({"sentences": ["wa wb"], "unknown": 3}, "has 2 words: it cannot have 3 slot"),
    ],
)
def test_what_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make(**options)


def test_too_few_words_for_canaries_of_their_own() -> None:
    with pytest.raises(OptionError, match="has 1 whole words, too few"):
        elmahdy_canaries(word_list("words", ["a"]), supporting="none")

"""Ranking samples by what a model that saw them knows more: halves, averages, copies, and the lab's own models."""

from __future__ import annotations

import logging
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import OptionError
from leakage_tasks.defences.ranking import character_lm, rank_samples

SECRET = "the key is 83b1f09ac4"


class Known:
    """A fit whose models find a text they saw ``worth[text]`` bits cheaper than the 100 bits of any other."""

    def __init__(self, worth):
        self.worth, self.calls = worth, []

    def __call__(self, texts, seed):
        self.calls.append((list(texts), seed))
        seen = set(texts)
        return lambda asked: np.array([100.0 - self.worth.get(text, 0.0) * (text in seen) for text in asked])


@pytest.fixture(scope="module")
def corpus():
    """40 sentences of a few words, much alike, and one secret that occurs once."""
    stream = random.Random(0)
    words = ["the cat", "a dog", "the man", "sat on", "saw", "the mat", "a door", "no one"]
    lines = [" ".join(stream.choices(words, k=3)) for _ in range(40)]
    return [*lines[:20], SECRET, *lines[20:]]


def test_the_difference_is_that_of_the_model_which_saw_the_sample():
    fit = Known({"a": 3.0, "bb": 8.0, "ccc": -2.0})
    ranked = rank_samples(["a", "bb", "ccc", "d"], fit)
    assert [(sample.text, sample.difference) for sample in ranked] == [("bb", 8.0), ("a", 3.0), ("d", 0.0), ("ccc", -2)]
    assert [sample.rate for sample in ranked] == [8 / 3, 3 / 2, 0.0, -2 / 4]


def test_by_sample_a_long_text_comes_first_by_character_a_short_one():
    fit = Known({"a long, long text": 9.0, "short": 8.0})
    texts = ["a long, long text", "short", "other", "another"]
    assert rank_samples(texts, fit)[0].text == "short"
    assert rank_samples(texts, fit, by="sample")[0].text == "a long, long text"


def test_a_seed_of_any_size_trains_models():
    fit = Known({})
    rank_samples(list("abcdefgh"), fit, seed=10**30)
    first, second = (seed for _, seed in fit.calls)
    assert 0 <= first < second < 1 << 64


@given(st.lists(st.sampled_from("abcdefgh "), min_size=2, max_size=40), st.integers(0, 99), st.integers(1, 3))
def test_each_split_deals_all_rows_into_two_halves_equal_texts_together(texts, seed, repeats):
    texts += ["x", "y"]
    fit = Known({})
    rank_samples(texts, fit, repeats=repeats, seed=seed)
    most = max(Counter(texts).values())
    real = Counter(text for text in texts if text.strip())
    assert len(fit.calls) == 2 * repeats
    for (one, _), (two, _) in zip(fit.calls[::2], fit.calls[1::2], strict=True):
        assert Counter(one) + Counter(two) == real
        assert not set(one) & set(two)
        assert abs(len(one) - len(two)) <= most


def test_splits_and_models_differ_and_come_from_the_seed():
    texts = [str(number) for number in range(40)]

    def calls(seed):
        fit = Known({})
        rank_samples(texts, fit, repeats=3, seed=seed)
        return fit.calls

    assert calls(1) == calls(1)
    assert calls(1) != calls(2)
    assert len({tuple(own) for own, _ in calls(1)}) == len({seed for _, seed in calls(1)}) == 6


def test_repeats_are_averaged():
    bits = iter((1.0, 2.0, 6.0))

    def fit(texts, seed):
        seen = set(texts)
        worth = next(bits) if "a" in seen else 0.0
        return lambda asked: np.array([50.0 - worth * (text == "a" and text in seen) for text in asked])

    (first, *_) = rank_samples(["a", "b", "c", "d"], fit, repeats=3)
    assert (first.text, first.difference) == ("a", 3.0)


def test_copies_are_one_sample_and_blank_texts_none():
    ranked = rank_samples(["a", "b", "", "a", "  ", "c"], Known({"a": 5.0}))
    assert [(sample.text, sample.rows) for sample in ranked] == [("a", [0, 3]), ("b", [1]), ("c", [5])]


@pytest.mark.slow
def test_the_lab_s_models_put_a_secret_first(corpus):
    ranked = rank_samples(corpus, character_lm(corpus, epochs=12, batch_size=4))
    assert ranked[0].text == SECRET
    assert ranked[0].rate > 2 * ranked[1].rate > 0


def test_the_same_seed_gives_the_same_ranking(corpus):
    def ranked(seed):
        return rank_samples(corpus, character_lm(corpus, epochs=1), seed=seed)

    one, other = ranked(3), ranked(4)
    assert ranked(3) == one
    assert [sample.text for sample in other] != [sample.text for sample in one]


def test_a_text_longer_than_the_model_s_context_is_scored_without_an_alarm(monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    texts = ["a" * 5000, "b\nc", "d"]
    ranked = rank_samples(texts, character_lm(texts, epochs=1))
    assert all(np.isfinite(sample.difference) for sample in ranked)
    assert not [record for record in caplog.records if "indexing errors" in record.getMessage()]


@pytest.mark.parametrize("bad", [{"epochs": 0}, {"batch_size": 0}])
def test_sizes_out_of_range_are_refused(bad):
    with pytest.raises(OptionError, match=next(iter(bad))):
        character_lm(["a"], **bad)

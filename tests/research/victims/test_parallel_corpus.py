"""The generated parallel corpus: repeatable, without repetition, regular in both languages."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.victims.parallel_corpus import invented_corpus


def test_the_same_seed_gives_the_same_pairs_and_another_another_language() -> None:
    one, other = invented_corpus(50, 10, seed=1), invented_corpus(50, 10, seed=2)
    assert invented_corpus(50, 10, seed=1) == one
    words = [{word for source, _ in corpus.training for word in source.rstrip(".").split()} for corpus in (one, other)]
    assert {word for word in words[0] & words[1] if len(word) > 2} == set()


def test_thousands_of_pairs_are_all_different() -> None:
    corpus = invented_corpus(3_000, 300)
    assert (len(corpus.training), len(corpus.validation)) == (3_000, 300)
    assert len({source for source, _ in corpus.training + corpus.validation}) == 3_300


def test_the_tense_of_the_last_word_is_that_of_the_english_sentence() -> None:
    endings = defaultdict(set)
    stems = defaultdict(set)
    for source, target in invented_corpus(500, 1).training:
        verb = source.rstrip(".").split()[-1]
        endings[target.split()[0]].add(verb[6:])
        stems[verb[:6]].add(target.split()[0])
    assert dict(endings) == {"yesterday": {"ta"}, "today": {""}, "tomorrow": {"mi"}}
    assert all(len(times) == 3 for times in stems.values())


def test_a_number_is_the_same_in_both_languages_and_its_noun_a_plural() -> None:
    numbers = 0
    for source, target in invented_corpus(500, 1).training:
        found = re.findall(r"\d", target)
        assert sorted(found) == sorted(re.findall(r"\d", source))
        assert len(re.findall(r"\d (?:\w+ )?\w+s\b", target)) == len(found)
        numbers += len(found)
    assert numbers > 50


def test_a_size_below_one_is_refused() -> None:
    with pytest.raises(OptionError, match="held_out is 0"):
        invented_corpus(10, 0)

"""Docstrings as labelled text: real sentences, no repeats, nothing imported, the same each time."""

from __future__ import annotations

import inspect
import json
import random
import sys

import pytest

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.research.victims import docstrings
from leakage_tasks.research.victims.docstrings import docstring_corpus, docstring_rows, label_counts, sentences


@pytest.fixture(scope="module")
def corpus():
    return docstring_corpus(classes=30, samples=2_000, held_out=500)


def test_paragraphs_become_sentences_and_examples_are_left_out():
    docstring = """Return the sum of\n    all   items.  The rest is left alone here.

    >>> sum([1, 2]) and this is no sentence at all
    3

    Too short.  But e.g. this one here stays whole!"""
    assert sentences(docstring) == [
        "Return the sum of all items.",
        "The rest is left alone here.",
        "But e.g. this one here stays whole!",
    ]


def test_a_sentence_too_long_for_an_encoder_is_left_out():
    assert sentences("word " * 60) == ["word " * 59 + "word"]
    assert sentences("word " * 61) == []


@pytest.mark.slow
def test_a_module_s_own_docstrings_stand_under_its_name():
    known = dict(docstring_rows())
    expected = sentences(inspect.getdoc(json.dumps))
    assert len(expected) > 5
    assert all(known[sentence] == "json" for sentence in expected)


@pytest.mark.slow
def test_there_is_enough_for_the_paper_s_hundred_classes():
    rows = docstring_rows()
    counts = label_counts(rows)
    assert len(rows) > 13_000
    assert len(counts) > 100
    assert not {"test", "idlelib", "site-packages"} & set(counts)


@pytest.mark.slow
def test_reading_imports_none_of_the_modules():
    assert "turtle" in label_counts(docstring_rows())
    assert "turtle" not in sys.modules


@pytest.mark.slow
def test_sizes_are_as_asked_and_the_held_out_part_is_news(corpus):
    assert (len(corpus.training), len(corpus.validation), len(corpus.labels)) == (2_000, 500, 30)
    texts = [text for text, _ in corpus.training + corpus.validation]
    assert len(set(texts)) == len(texts)


@pytest.mark.slow
def test_every_label_can_be_learnt_and_the_rarest_is_the_one_with_fewest_rows(corpus):
    counts = label_counts(corpus.training)
    assert set(counts) == set(corpus.labels)
    assert list(corpus.labels) == sorted(corpus.labels)
    assert counts[corpus.rarest] == min(counts.values())


@pytest.mark.slow
def test_every_label_has_a_row_even_in_a_small_sample():
    small = docstring_corpus(classes=100, samples=100, held_out=10)
    assert sorted(label for _, label in small.training) == sorted(small.labels)


@pytest.mark.slow
def test_the_labels_are_the_largest_modules_and_their_share_is_theirs(corpus):
    counts = label_counts(docstring_rows())
    smallest = min(counts[label] for label in corpus.labels)
    assert all(counts[label] <= smallest for label in set(counts) - set(corpus.labels))
    largest = max(corpus.labels, key=lambda label: counts[label])
    share = counts[largest] / sum(counts[label] for label in corpus.labels)
    assert label_counts(corpus.training)[largest] / 2_000 == pytest.approx(share, abs=0.03)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_rows_whatever_the_random_state():
    random.seed(99)
    one, other = (docstring_corpus(classes=10, samples=200, held_out=50, seed=seed) for seed in (0, 1))
    assert one == docstring_corpus(classes=10, samples=200, held_out=50)
    assert one.training != other.training


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"classes": 1}, "classes is 1"),
        ({"classes": 100_000}, "classes is 100000"),
        ({"classes": 10, "samples": 9}, "samples is 9"),
        ({"classes": 10, "samples": 100_000}, "samples is 100000"),
    ],
)
def test_more_than_there_is_is_refused(bad, named):
    with pytest.raises(OptionError, match=named):
        docstring_corpus(**bad)


def test_a_python_without_sources_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(docstrings.sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    with pytest.raises(LeakageError, match="no Python sources"):
        docstring_rows.__wrapped__()

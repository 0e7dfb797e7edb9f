"""Runs found by the index against a search of every substring."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.pairs.index.build import build_index
from leakage_tasks.pairs.index.search import NOWHERE, find_matches
from tests.oracles import merging

DOCUMENTS = st.lists(st.lists(st.integers(0, 3), max_size=30), min_size=1, max_size=6).filter(any)


def index_of(documents, part=1 << 20, reach=64):
    pieces = ([np.array(each, dtype=np.int64)] for each in documents)
    return build_index(pieces, merging(), "merging", "corpus", part=part, reach=reach)


def occurs(documents, run):
    return any(run == each[i : i + len(run)] for each in documents for i in range(len(each) - len(run) + 1))


def brute_runs(documents, text, n):
    """Every maximal stretch of the text that some document holds, by trying all of them."""
    stretches = [(i, j) for i in range(len(text)) for j in range(i + n, len(text) + 1) if occurs(documents, text[i:j])]
    return [(i, j - i) for i, j in stretches if not any(a <= i and j <= b and (a, b) != (i, j) for a, b in stretches)]


@given(DOCUMENTS, st.lists(st.integers(0, 3), max_size=40), st.integers(1, 6), st.sampled_from([7, 16, 1000]))
def test_runs_are_those_of_a_search_of_all_substrings(documents, text, n, part):
    index = index_of(documents, part)
    matches = find_matches(index, text, n)
    assert [(run.start, run.length) for run in matches.runs] == brute_runs(documents, text, n)
    held = [each for each in documents if each]
    for run in matches.runs:
        document, offset = index.place(run.position)
        assert held[document][offset : offset + run.length] == text[run.start : run.start + run.length]


@given(DOCUMENTS, st.lists(st.integers(0, 3), max_size=40), st.integers(1, 6), st.sampled_from([7, 1000]))
def test_an_n_gram_has_one_position_wherever_it_is_found(documents, text, n, part):
    index = index_of(documents, part)
    positions = find_matches(index, text, n).positions
    grams = [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
    assert len(positions) == len(grams)
    assert [place != NOWHERE for place in positions] == [occurs(documents, list(gram)) for gram in grams]
    known = {}
    for gram, place in zip(grams, positions.tolist(), strict=True):
        assert known.setdefault(gram, place) == place


@pytest.mark.parametrize("vocabulary", [65_534, 65_535, 100_000])
def test_the_largest_token_of_a_vocabulary_is_found(vocabulary):
    class Tokenizer:
        def __len__(self):
            return vocabulary

        def get_vocab(self):
            return {}

        def __call__(self, text, **settings):
            return {"input_ids": []}

    top = vocabulary - 1
    index = build_index([[np.array([0, top, 256, top, 1])]], Tokenizer(), "", "")
    assert [(run.start, run.length) for run in find_matches(index, [5, top, 256, top, 2], 2).runs] == [(1, 3)]
    assert index.tokens.dtype == (np.uint16 if vocabulary == 65_534 else np.uint32)


def test_a_run_does_not_cross_documents():
    index = index_of([[1, 2, 3], [4, 5, 6]])
    assert [(run.start, run.length) for run in find_matches(index, [1, 2, 3, 4, 5, 6], 2).runs] == [(0, 3), (3, 3)]

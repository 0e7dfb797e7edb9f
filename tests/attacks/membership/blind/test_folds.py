"""Folds keep clusters whole and equal texts together, whatever the order of the texts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.attacks.membership.blind.folds import FOLDS, grouped_folds, joined_clusters, text_digests

TEXTS = st.lists(st.tuples(st.text(max_size=3), st.booleans(), st.integers(0, 9)), min_size=1, max_size=40)


@given(TEXTS)
def test_a_cluster_and_an_equal_text_are_never_in_two_folds(rows: list[tuple[str, bool, int]]) -> None:
    texts, members, names = zip(*rows, strict=True)
    clusters = joined_clusters(texts, names)
    try:
        folds = grouped_folds(text_digests(texts, 0), members, clusters)
    except ValueError:
        counts = [len({c for c, m in zip(clusters, members, strict=True) if m is of}) for of in (True, False)]
        assert min(counts) < 2
        return
    for keys in (texts, names, clusters):
        of_key: dict[object, set[int]] = {}
        for key, fold in zip(keys, folds, strict=True):
            of_key.setdefault(key, set()).add(int(fold))
        assert all(len(found) == 1 for found in of_key.values())


@given(TEXTS)
def test_joined_clusters_are_the_components_of_shared_texts(rows: list[tuple[str, bool, int]]) -> None:
    """Oracle: repeated relabelling until nothing changes."""
    texts, _, names = zip(*rows, strict=True)
    labels = list(range(len(rows)))
    for _ in rows:
        for keys in (texts, names):
            least: dict[object, int] = {}
            for key, label in zip(keys, labels, strict=True):
                least[key] = min(least.get(key, label), label)
            labels = [min(least[key], label) for key, label in zip(keys, labels, strict=True)]
    found = joined_clusters(texts, names)
    assert len(set(zip(found, labels, strict=True))) == len(set(found)) == len(set(labels))


def test_folds_have_equal_numbers_of_each_class() -> None:
    texts = [f"text {number}" for number in range(100)]
    folds = grouped_folds(text_digests(texts, 3), [True] * 60 + [False] * 40, range(100))
    assert Counter(folds[:60].tolist()) == dict.fromkeys(range(FOLDS), 12)
    assert Counter(folds[60:].tolist()) == dict.fromkeys(range(FOLDS), 8)


def test_another_seed_gives_other_folds() -> None:
    texts = [f"text {number}" for number in range(40)]
    one, same, other = (grouped_folds(text_digests(texts, seed), [True, False] * 20, range(40)) for seed in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_few_clusters_give_fewer_folds_and_one_gives_none() -> None:
    texts = [str(number) for number in range(9)]
    members = [True] * 3 + [False] * 6
    assert set(grouped_folds(text_digests(texts, 0), members, range(9)).tolist()) == {0, 1, 2}
    with pytest.raises(ValueError, match="two clusters each"):
        grouped_folds(text_digests(texts, 0), members, [0, 0, 0, *range(3, 9)])

"""Intervals of means over documents: equal to the usual ones for single values, wider if values repeat."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leakage_tasks.stats.clusters import clustered_mean, clustered_share, studentized_mean, totals, units
from leakage_tasks.stats.intervals import clopper_pearson

HITS = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=40)


@given(HITS)
def test_one_value_per_document_gives_clopper_and_pearson_s_interval(hits: list[float]) -> None:
    found = clustered_share(hits, range(len(hits)))
    assert found == pytest.approx(clopper_pearson(round(sum(hits)), len(hits)), abs=1e-12)


@given(HITS, st.integers(2, 5))
def test_repeating_every_value_adds_no_information(hits: list[float], times: int) -> None:
    """The effective number of values is that of the documents; its correction makes it no larger."""
    number = len(hits)
    low, high = clustered_share(hits * times, [*range(number)] * times)
    least, most = clopper_pearson(round(sum(hits)), number)
    assert low <= least + 1e-9
    assert high >= most - 1e-9
    assert low <= sum(hits) / number <= high


def test_the_effective_number_follows_the_published_formula() -> None:
    """Korn and Graubard's n*, with a jackknife's variance, and Kish's number of clusters of equal sizes."""
    values, clusters = [1, 1, 0, 0, 0, 1, 0, 0, 1, 1.0], [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
    share, number, groups = np.mean(values), len(values), 4
    without = [np.mean([v for v, c in zip(values, clusters, strict=True) if c != g]) for g in range(groups)]
    variance = (groups - 1) / groups * sum((one - share) ** 2 for one in without)
    effect = variance / (share * (1 - share) / (number - 1))
    student = stats.t.ppf(0.975, number - 1) / stats.t.ppf(0.975, 10**2 / (3**2 + 3**2 + 2**2 + 2**2) - 1)
    effective = number / effect * student**2
    assert effective < number
    hits = share * effective
    expected = stats.beta.ppf(0.025, hits, effective - hits + 1), stats.beta.ppf(0.975, hits + 1, effective - hits)
    assert clustered_share(values, clusters) == pytest.approx(expected)


def test_the_interval_of_a_share_covers_the_truth_of_dependent_values() -> None:
    generator, covered = np.random.default_rng(0), 0
    for _ in range(300):
        chances = generator.beta(0.3, 0.7, size=40)
        values = (generator.random((40, 5)) < chances[:, None]).astype(float).ravel()
        low, high = clustered_share(values.tolist(), np.repeat(np.arange(40), 5).tolist())
        covered += low <= 0.3 <= high
    assert covered >= 0.92 * 300


def unequal_sizes(stream: np.random.Generator) -> np.ndarray:
    """The number of each of 20 documents, once per value: sizes are log-normal."""
    return np.repeat(np.arange(20), np.ceil(np.exp(stream.normal(1, 1.5, 20))).astype(int))


def test_the_interval_of_a_share_covers_the_truth_if_few_documents_have_most_values() -> None:
    stream, covered = np.random.default_rng(0), 0
    for _ in range(300):
        documents = unequal_sizes(stream)
        values = (stream.random(len(documents)) < stream.beta(2, 3, 20)[documents]).astype(float)
        low, high = clustered_share(values.tolist(), documents.tolist())
        covered += low <= 0.4 <= high
    assert covered >= 0.92 * 300


def test_the_interval_of_a_mean_covers_the_truth_if_few_documents_have_most_values() -> None:
    stream, covered = np.random.default_rng(0), 0
    for _ in range(300):
        documents = unequal_sizes(stream)
        values = stream.normal(3, 1, 20)[documents] + stream.normal(0, 0.3, len(documents))
        low, high = clustered_mean(values.tolist(), documents.tolist())
        covered += low <= 3 <= high
    assert covered >= 0.94 * 300


def test_the_interval_of_few_documents_is_student_s() -> None:
    means = [1.0, 4.0, 2.0, 2.5]
    expected = stats.t.interval(0.95, 3, np.mean(means), stats.sem(means))
    assert clustered_mean(np.repeat(means, 3).tolist(), np.repeat(range(4), 3).tolist()) == pytest.approx(expected)


def test_the_interval_of_a_bounded_mean_is_within_that_of_as_many_outcomes() -> None:
    """A single large value leaves the bootstrap-t interval no upper end below 1."""
    values = [1e-6, 2e-6, 3e-6, 4e-6] * 10 + [1.0]
    assert clustered_mean(values, range(41), 0, 1)[1] == pytest.approx(clopper_pearson(1, 41)[1], rel=1e-3)


def test_the_studentized_bootstrap_is_as_a_loop_over_resamples_computes_it() -> None:
    stream = np.random.default_rng(2)
    documents = np.repeat(np.arange(12), stream.integers(1, 5, 12))
    values = stream.exponential(1, 12)[documents] + stream.normal(0, 0.2, len(documents))
    students = []
    for _ in range(4000):
        drawn = [values[documents == name] for name in stream.integers(12, size=12)]
        mean, error = mean_and_error(drawn)
        students.append((mean - values.mean()) / error)
    _, error = mean_and_error([values[documents == name] for name in range(12)])
    sizes = np.bincount(documents)
    error *= stats.t.ppf(0.975, sizes.sum() ** 2 / (sizes**2).sum() - 1) / stats.t.ppf(0.975, 11)
    low, high = np.quantile(students, [0.975, 0.025])
    expected = values.mean() - low * error, values.mean() - high * error
    found = studentized_mean(values.tolist(), documents.tolist(), 20_000)
    assert found == pytest.approx(expected, abs=0.25 * error)


def mean_and_error(parts: list[np.ndarray]) -> tuple[float, float]:
    """Mean over the values of documents, and the jackknife's standard error."""
    mean = np.concatenate(parts).mean()
    without = [np.concatenate(parts[:one] + parts[one + 1 :]).mean() for one in range(len(parts))]
    return mean, math.sqrt(11 / 12 * sum((one - mean) ** 2 for one in without))


@pytest.mark.parametrize("interval", [clustered_mean, clustered_share])
def test_intervals_cover_the_truth_if_one_document_has_most_values(
    interval: Callable[..., tuple[float, float]],
) -> None:
    stream, covered = np.random.default_rng(0), 0
    documents = np.repeat(range(3), [50, 1, 1])
    for _ in range(300):
        chances = stream.beta(2, 3, 3)[documents]
        values = chances if interval is clustered_mean else (stream.random(52) < chances).astype(float)
        low, high = interval(values.tolist(), documents.tolist())
        covered += low <= 0.4 <= high
    assert covered >= 0.92 * 300


def test_documents_of_one_mean_have_an_interval_although_their_values_differ() -> None:
    low, high = clustered_mean([0, 0.25, 0.25, 0], [0, 0, 1, 1], 0, 1)
    other = 1 - 0.025 ** (1 / 2)
    assert (low, high) == pytest.approx((0.125 * (1 - other), 0.125 + 0.875 * other))


def test_the_interval_of_a_mean_of_some_memorized_documents_covers_the_truth() -> None:
    stream, documents, runs, covered, covered_by_percentiles = np.random.default_rng(0), 40, 200, 0, 0
    names = np.repeat(np.arange(documents), 6).tolist()
    for _ in range(runs):
        bits = stream.exponential(40, documents) * (stream.random(documents) < 0.2)
        values = (np.repeat(bits, 6) + stream.normal(2, 3, 240)).tolist()
        low, high = studentized_mean(values, names, 1000)
        covered += low <= 10 <= high
        drawn = stream.integers(documents, size=(500, documents))
        low, high = np.quantile(np.reshape(values, (documents, 6)).mean(axis=1)[drawn].mean(axis=1), [0.025, 0.975])
        covered_by_percentiles += low <= 10 <= high
    assert covered_by_percentiles < 0.9 * runs < 0.93 * runs <= covered


@pytest.mark.parametrize("values", [[0.0] * 39 + [1.0], [1.0] * 5 + [2.0] * 4])
def test_too_few_different_documents_have_no_studentized_interval(values: list[float]) -> None:
    assert studentized_mean(values, range(len(values))) == (None, None)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 4)), min_size=1, max_size=20), st.randoms())
def test_order_changes_no_interval(rows: list[tuple[float, int]], stream: object) -> None:
    shuffled = sorted(rows, key=lambda row: hash((row, id(stream))))
    columns = (tuple(zip(*order, strict=True)) for order in (rows, shuffled))
    found = [clustered_mean(values, units(clusters), 0, 1) for values, clusters in columns]
    assert found[0] == pytest.approx(found[1])
    sums, sizes = totals(*zip(*rows, strict=True))
    assert (sums.sum(), sizes.sum()) == (pytest.approx(sum(value for value, _ in rows)), len(rows))


def test_a_document_with_half_of_the_values_has_no_studentized_interval() -> None:
    values = np.random.default_rng(0).normal(size=24).tolist()
    documents = [*range(1, 13), *[0] * 12]
    assert studentized_mean(values, documents) == (None, None)
    assert None not in studentized_mean(values[:-1], documents[:-1])

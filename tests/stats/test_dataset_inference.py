"""Dataset inference: exact tests, unions of splits, invariances, and rates of errors in simulations."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.stats import dataset_inference
from leakage_tasks.stats.dataset_inference import (
    Combination,
    Units,
    compare_units,
    dataset_test,
    null_check,
    twice_the_median,
)

MEMBERS = np.repeat([True, False], 40)
NUMBERS = np.arange(80)


def made(seed: int, gap: float = 0.0, number: int = 3) -> FloatArray:
    """Correlated scores of several attacks on 40 members and 40 non-members: ``[number, 80]``."""
    stream = np.random.default_rng(seed)
    return stream.normal(size=80) + 0.5 * stream.normal(size=(number, 80)) + gap * MEMBERS


@pytest.mark.parametrize(
    ("values", "expected"), [([0.1], 0.1), ([0.3, 0.1], 0.2), ([0.5, 0.2, 0.1], 0.3), ([0.9], 0.9)]
)
def test_p_values_are_combined_to_twice_their_median(values: list[float], expected: float) -> None:
    assert twice_the_median(values) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_a_combined_p_value_is_between_the_median_and_1(values: list[float]) -> None:
    found = twice_the_median(values)
    assert np.median(values) <= found + 1e-12 or len(values) % 2 == 0
    assert sorted(values)[(len(values) - 1) // 2] <= found <= 1


def test_the_worst_dependence_reaches_the_level_and_no_more() -> None:
    """Half of the p-values are u, the others 1, so that their lower median is u: p ≤ 5 % for u ≤ 2.5 %."""
    levels = np.linspace(0.0005, 0.9995, 1000)
    found = np.array([twice_the_median([u, u, 1, 1]) for u in levels])
    assert (found <= 0.05).mean() == pytest.approx(0.025, abs=0.001)
    # Each p-value is uniform: one half of them is ≤ 5 % on either side of the scale.
    halves = np.array([twice_the_median([u, u, (u + 0.5) % 1, (u + 0.5) % 1]) for u in levels])
    assert (halves <= 0.05).mean() <= 0.0501


@pytest.mark.filterwarnings("ignore:Precision loss")
@given(st.lists(st.integers(-3, 3), min_size=2, max_size=5), st.lists(st.integers(-3, 3), min_size=2, max_size=4))
def test_the_permutation_test_is_the_share_of_all_exchanges(ones: list[int], others: list[int]) -> None:
    values = np.array([*ones, *others], float)
    sums = [values[list(chosen)].sum() for chosen in combinations(range(len(values)), len(ones))]
    exact = np.mean(np.array(sums) >= sum(ones) - 1e-9)
    welch, permutation = compare_units(np.array(ones, float), np.array(others, float), np.random.default_rng(0))
    if np.ptp(values) == 0:
        assert (welch, permutation) == (1, 1)
        return
    assert permutation == pytest.approx(exact, abs=0.06)
    if np.ptp(ones) or np.ptp(others):
        expected = stats.ttest_ind(ones, others, equal_var=False, alternative="greater").pvalue
        assert welch == pytest.approx(expected)


def test_a_spread_divides_the_difference_of_the_means() -> None:
    """Oracle: Welch's t by its formula, and the permutation test of groups moved together."""
    stream = np.random.default_rng(0)
    ones, others = stream.normal(0.8, 1, 12), stream.normal(0, 2, 9)
    welch, permutation = compare_units(ones, others, np.random.default_rng(0), 1.5)
    errors = np.array([ones.var(ddof=1) / 12, others.var(ddof=1) / 9])
    t = (ones.mean() - others.mean()) / 1.5 / errors.sum() ** 0.5
    freedom = errors.sum() ** 2 / (errors**2 / [11, 8]).sum()
    assert welch == pytest.approx(stats.t.sf(t, freedom))
    values = np.r_[ones, others]
    drawn = np.array([np.random.default_rng(seed).permutation(values)[:12].mean() for seed in range(4000)])
    reached = values.mean() + (ones.mean() - values.mean()) / 1.5
    assert permutation == pytest.approx((drawn >= reached).mean(), abs=0.04)


def test_groups_without_a_variance_show_nothing() -> None:
    assert compare_units(np.array([1.0]), np.array([0.0, 1.0]), np.random.default_rng(0)) == (1, 1)


def test_values_that_are_equal_up_to_rounding_have_no_variance():
    ones, others = np.full(7, 0.1), np.full(6, 0.7)
    for moved in (0.0, 1e-16):
        welch, permutation = compare_units(others + moved * np.arange(6), ones, np.random.default_rng(0))
        assert welch == 1
        assert permutation < 0.01


def test_the_combination_is_the_regression_on_clipped_normalized_scores() -> None:
    """Oracle: least squares with weights that make both classes equal, on scores clipped at the quantiles."""
    scores, members = made(0, 0.5), NUMBERS < 40
    model = Combination.fitted(scores, members)
    low, high = (np.quantile(scores, share, axis=1)[:, None] for share in (0.025, 0.975))
    clipped = np.clip(scores, low, high)
    normal = (clipped - clipped.mean(axis=1, keepdims=True)) / clipped.std(axis=1, keepdims=True)
    expected = np.linalg.lstsq(np.c_[normal.T, np.ones(80)], members * 1.0, rcond=None)[0][:3] @ normal
    assert np.corrcoef(model.of(scores), expected)[0, 1] > 0.9999


def test_a_constant_score_has_no_weight_and_an_outlier_no_more_than_the_limit() -> None:
    scores = np.vstack([made(0, 0.5), np.ones(80)])
    model = Combination.fitted(scores, MEMBERS)
    assert model.weights[3] == 0
    beyond = scores.copy()
    beyond[0, 0] = 1e9
    at_limit = scores.copy()
    at_limit[0, 0] = model.high[0]
    assert np.array_equal(model.of(beyond), model.of(at_limit))


def test_a_split_keeps_clusters_whole_and_halves_each_class() -> None:
    clusters = NUMBERS // 4
    given_ = Units.of(made(0), MEMBERS, clusters)
    part = given_.half(np.random.default_rng(0))
    assert all(len(set(part[clusters == cluster].tolist())) == 1 for cluster in range(20))
    assert (part & MEMBERS).sum() == (part & ~MEMBERS).sum() == 20


def test_a_split_does_not_depend_on_scores() -> None:
    parts = [Units.of(made(seed), MEMBERS, NUMBERS).half(np.random.default_rng(0)) for seed in (0, 1)]
    assert np.array_equal(*parts)


def test_a_signal_is_found_and_its_direction_matters() -> None:
    assert dataset_test(made(0, 1.5), MEMBERS, NUMBERS).p < 0.01
    assert dataset_test(-made(0, 0.1), MEMBERS, NUMBERS).p > 0.05


def test_exchanged_classes_are_found_too_as_the_combination_is_fitted() -> None:
    """The regression takes either sign, as published: a set that scores lower differs as well."""
    assert dataset_test(made(0, -1.5), MEMBERS, NUMBERS).p < 0.01


def test_only_clusters_count_as_values() -> None:
    """Ten copies of a text are one cluster and add nothing."""
    scores, clusters = made(3, 0.4), np.tile(NUMBERS, 10)
    copied = dataset_test(np.tile(scores, 10), np.tile(MEMBERS, 10), clusters)
    assert copied == pytest.approx(dataset_test(scores, MEMBERS, NUMBERS), rel=0.1)
    assert dataset_test(np.tile(scores, 10), np.tile(MEMBERS, 10), np.arange(800)).p < copied.p


def test_linear_maps_of_scores_and_the_order_of_attacks_change_nothing() -> None:
    scores = made(3, 0.3)
    one = dataset_test(scores, MEMBERS, NUMBERS)
    other = dataset_test((5 * scores - 2)[::-1], MEMBERS, NUMBERS)
    assert other == pytest.approx(one, rel=1e-6)


def test_the_order_of_texts_changes_nothing() -> None:
    scores, order = made(3, 0.3), np.random.default_rng(0).permutation(80)
    one, other = dataset_test(scores, MEMBERS, NUMBERS), dataset_test(scores[:, order], MEMBERS[order], order)
    assert other.welch == pytest.approx(one.welch)
    assert other.permutation == pytest.approx(one.permutation, abs=0.02)


def test_seeds_make_it_repeatable() -> None:
    scores = made(3, 0.2)
    found = [dataset_test(scores, MEMBERS, NUMBERS, seed) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("test", [dataset_test, null_check])
def test_few_clusters_are_refused(test: object) -> None:
    with pytest.raises(ValueError, match="clusters"):
        test(made(0), MEMBERS, NUMBERS // 20)  # type: ignore[operator]


def test_no_attack_is_refused() -> None:
    with pytest.raises(ValueError, match="no attack"):
        dataset_test([], MEMBERS, NUMBERS)


def test_without_a_signal_one_split_errs_in_5_percent_of_runs() -> None:
    """400 runs of one split; both tests are exact or nearly so: 5 % ± 2.6 standard errors."""
    found = [dataset_test(made(seed), MEMBERS, NUMBERS, splits=1) for seed in range(400)]
    for name in ("welch", "permutation"):
        rate = np.mean([getattr(of, name) <= 0.05 for of in found])
        assert rate == pytest.approx(0.05, abs=2.6 * (0.05 * 0.95 / 400) ** 0.5)


def test_without_a_signal_combined_splits_err_in_at_most_5_percent_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_inference, "PERMUTATIONS", 99)
    found = [dataset_test(made(seed), MEMBERS, NUMBERS, splits=9).p <= 0.05 for seed in range(200)]
    assert np.mean(found) <= 0.05


def test_halves_of_the_non_members_are_not_distinguished_even_if_members_differ() -> None:
    found = [null_check(made(seed, 3.0), MEMBERS, NUMBERS) for seed in range(12)]
    assert min(of.p for of in found) > 0.05
    assert np.mean([of.false_positives for of in found]) == pytest.approx(0.05, abs=0.05)
    assert found[0].halvings == 20

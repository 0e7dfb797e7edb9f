"""Lower bounds on ε: the paper's printed values, exact coverage against randomized response, and limits."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leakage_tasks.stats.epsilon import ALPHA, fewest_pairs, group_delta, p_value, secret_bound, swap_bound
from leakage_tasks.stats.intervals import clopper_pearson

deltas = st.sampled_from([0.0, 1e-6, 1e-4, 1e-3])


@st.composite
def results(draw):
    """Right guesses, guesses and pairs."""
    pairs = draw(st.integers(1, 60))
    guesses = draw(st.integers(0, pairs))
    return draw(st.integers(0, guesses)), guesses, pairs


# Steinke, Nasr and Jagielski (2023): Appendix D's worked example, and section 7 (Figure 11), which cuts digits off.
@pytest.mark.parametrize(
    ("right", "guesses", "pairs", "delta", "printed"),
    [
        (75, 100, 100, 0.0, 0.702),
        (75, 100, 100, 1e-4, 0.699),
        (75, 100, 1000, 1e-4, 0.673),
        (1439, 1510, 100_000, 1e-5, 2.675),
    ],
)
def test_bounds_are_those_the_paper_prints(right, guesses, pairs, delta, printed):
    assert swap_bound(right, guesses, pairs, delta) == pytest.approx(printed, abs=1e-3)


def test_the_p_value_is_the_one_the_paper_prints():
    assert p_value(75, 100, 100, math.log(3)) == pytest.approx(0.553, abs=5e-4)


@pytest.mark.parametrize("guesses", [5, 20, 100])
def test_all_right_by_hand(guesses):
    """0.05 = q^n."""
    chance = 0.05 ** (1 / guesses)
    assert swap_bound(guesses, guesses, guesses) == pytest.approx(math.log(chance / (1 - chance)))


@given(results())
def test_without_delta_it_is_the_exact_limit_of_a_proportion(result):
    right, guesses, pairs = result
    bound = swap_bound(right, guesses, pairs)
    low = clopper_pearson(right, guesses, level=1 - 2 * ALPHA)[0] if guesses else 0.0
    assert bound == pytest.approx(max(0.0, math.log(low / (1 - low)) if low else 0.0), abs=1e-9)


@given(results(), deltas)
def test_the_bound_is_where_the_p_value_reaches_five_percent(result, delta):
    bound = swap_bound(*result, delta)
    if bound:
        assert p_value(*result, bound, delta) == pytest.approx(ALPHA, rel=1e-6)
    else:
        assert p_value(*result, 0.0, delta) >= ALPHA * (1 - 1e-9)


@given(results(), deltas)
def test_all_smaller_epsilons_are_rejected_too(result, delta):
    bound = swap_bound(*result, delta)
    values = [p_value(*result, share * bound, delta) for share in np.linspace(0, 1, 9)]
    assert values == sorted(values)


@given(results(), deltas)
def test_the_small_term_of_delta_is_the_paper_s(result, delta):
    right, guesses, pairs = result
    chances = stats.binom(guesses, 1 / (1 + math.exp(-0.7)))
    terms = [sum(chances.pmf(k) for k in range(max(0, right - i), right)) / i for i in range(1, pairs + 1)]
    expected = sum(chances.pmf(k) for k in range(right, guesses + 1)) + 2 * pairs * delta * max(terms)
    assert p_value(*result, 0.7, delta) == pytest.approx(min(1.0, expected), rel=1e-9)


@given(results(), deltas, st.integers(1, 8))
def test_more_right_guesses_show_no_less(result, delta, rows):
    right, guesses, pairs = result
    bounds = [swap_bound(each, guesses, pairs, delta, rows) for each in range(guesses + 1)]
    assert bounds == sorted(bounds)
    assert swap_bound(right, guesses, pairs, delta, rows) <= swap_bound(right, guesses, pairs, 0.0, rows)


@given(results(), deltas, st.integers(1, 40))
def test_of_many_rows_one_is_worth_its_share(result, delta, rows):
    swap, row = swap_bound(*result), swap_bound(*result, rows=rows)
    assert row == pytest.approx(swap / rows)
    assert swap_bound(*result, delta, rows) <= swap_bound(*result, delta) / rows + 1e-9


def test_the_delta_of_a_group_is_the_sum_over_its_members():
    assert group_delta(0.3, 4, 1e-5) == pytest.approx(1e-5 * sum(math.exp(0.3 * i) for i in range(4)))
    assert group_delta(0.0, 4, 1e-5) == 4e-5


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("pairs", [5, 20, 50])
def test_of_randomized_response_the_bound_is_too_high_in_at_most_five_percent(pairs, epsilon, delta):
    """Exactly: of each coin the mechanism tells the truth with probability δ, else answers by ε."""
    chance = delta + (1 - delta) / (1 + math.exp(-epsilon))
    wrong = [v for v in range(pairs + 1) if swap_bound(v, pairs, pairs, delta) > epsilon + 1e-12]
    assert sum(stats.binom.pmf(v, pairs, chance) for v in wrong) <= ALPHA + 1e-12


def test_where_pairs_are_many_the_bound_is_near_the_true_epsilon():
    right = round(2000 / (1 + math.exp(-2.0)))
    assert 1.8 < swap_bound(right, 2000, 2000, 1e-5) < 2.0


@pytest.mark.parametrize(("delta", "fewest"), [(0.0, 5), (1e-5, 5), (1e-2, 6), (0.02, None)])
def test_the_fewest_pairs_that_show_anything(delta, fewest):
    assert fewest_pairs(delta) == fewest
    if fewest:
        assert swap_bound(fewest, fewest, fewest, delta) > 0
        assert swap_bound(fewest - 1, fewest - 1, fewest - 1, delta) == 0


@pytest.mark.parametrize("result", [(3, 2, 5), (1, 6, 5), (-1, 2, 5)])
def test_counts_that_cannot_be_are_refused(result):
    with pytest.raises(ValueError, match="not a result"):
        swap_bound(*result)
    with pytest.raises(ValueError, match="not a result"):
        secret_bound(result[0], result[0] - 1, 3.0)


# -- secrets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [4, 9, 16])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("canaries", [1, 7, 40])
def test_of_a_secret_s_randomized_response_the_bound_is_too_high_in_at_most_five_percent(size, epsilon, canaries):
    chance = math.exp(epsilon) / (math.exp(epsilon) + size - 1)
    bounds = [secret_bound(v, canaries, math.log(size - 1)) for v in range(canaries + 1)]
    wrong = [v for v, bound in enumerate(bounds) if bound > epsilon + 1e-9]
    assert sum(stats.binom.pmf(v, canaries, chance) for v in wrong) <= ALPHA + 1e-12


def test_one_secret_of_nine_digits_at_rank_one_by_hand():
    """0.05 = e^ε / (e^ε + 10⁹ − 1)."""
    expected = math.log(0.05 / 0.95 * (1e9 - 1))
    assert secret_bound(1, 1, math.log(1e9 - 1)) == pytest.approx(expected)
    assert expected == pytest.approx(17.78, abs=5e-3)


@given(st.integers(1, 60), st.floats(0, 200))
def test_more_secrets_first_show_no_less(canaries, log_others):
    bounds = [secret_bound(v, canaries, log_others) for v in range(canaries + 1)]
    assert bounds == sorted(bounds)
    assert bounds[0] == 0

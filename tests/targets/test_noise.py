"""The arithmetic of rounding noise, written a second way."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.targets.noise import FLOOR_BITS, NO_NOISE, Noise, agree, recorded_noise, warn_of_slower

BITS = st.floats(1e-3, 3.0)
TOKENS = st.integers(1, 200)


@given(BITS, TOKENS, st.integers(0, 2**32 - 1))
def test_the_noise_of_a_text_is_the_deviation_of_a_sum_of_tokens(bits, tokens, seed):
    sums = np.random.default_rng(seed).normal(0, bits, (4000, tokens)).sum(1)
    assert Noise(bits).of(tokens) == pytest.approx(sums.std(), rel=0.06)


@given(BITS, TOKENS, st.integers(0, 2**32 - 1))
def test_the_margin_holds_95_percent(bits, tokens, seed):
    costs = np.random.default_rng(seed).normal(0, Noise(bits).of(tokens), 20_000)
    assert np.mean(np.abs(costs) <= Noise(bits).margin(tokens)) == pytest.approx(0.95, abs=0.01)


def test_the_margin_below_the_floor_is_nothing():
    assert Noise(FLOOR_BITS / 100).margin(4) == 0
    assert NO_NOISE.margin(None) == 0


def test_a_noise_of_whole_texts_needs_no_length():
    assert Noise(text_bits=0.5).of(None) == 0.5


@given(BITS, st.integers(0, 2**32 - 1))
def test_costs_that_differ_by_noise_agree(bits, seed):
    numbers = np.random.default_rng(seed)
    tokens = numbers.integers(5, 40, 16)
    plain = numbers.uniform(50, 150, 16)
    rounded = plain + np.clip(numbers.normal(0, 1, 16), -3, 3) * bits * np.sqrt(tokens)
    assert Noise(bits).agrees(rounded, plain, list(tokens))


@given(BITS, st.integers(1, 20))
def test_a_bias_of_twice_the_noise_disagrees(bits, number):
    plain, tokens = np.full(number + 3, 100.0), [25] * (number + 3)
    assert not Noise(bits).agrees(plain + 2 * bits * 5, plain, tokens)


@given(BITS)
def test_one_text_that_is_wrong_disagrees(bits):
    plain = np.full(20, 100.0)
    wrong = plain.copy()
    wrong[7] += 5 * bits * 5
    assert not Noise(bits).agrees(wrong, plain, [25] * 20)


@pytest.mark.parametrize("noise", [NO_NOISE, Noise(0.3)])
def test_what_is_no_number_agrees_with_nothing(noise):
    assert not noise.agrees(np.array([math.nan]), np.array([1.0]), [5])


def test_the_factor_of_a_slower_pass_is_never_below_one(caplog):
    warn_of_slower(object(), "it cannot", 0.2)
    assert "up to 1 times as long" in caplog.text


def test_costs_within_the_floor_measure_no_noise():
    assert agree(None, np.array([1.0]), np.array([1.0005]), [3])


def test_a_target_that_states_no_noise_has_none():
    assert recorded_noise(object()) == NO_NOISE

"""What DP-SGD promises: opacus' ε for a row, and group privacy's formula for several."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("opacus")

from leakage_tasks.lab.accounting import Promise

PROMISE = Promise(noise_multiplier=1.1, sample_rate=0.05, steps=200, delta=1e-5)


def test_for_one_row_it_is_the_accountant_s():
    from opacus.accountants import RDPAccountant

    oracle = RDPAccountant()
    for _ in range(200):
        oracle.step(noise_multiplier=1.1, sample_rate=0.05)
    assert PROMISE.epsilon() == pytest.approx(oracle.get_epsilon(1e-5), rel=1e-9)
    assert PROMISE.epsilon_of(1) == PROMISE.epsilon()


@given(st.integers(2, 6), st.floats(0.8, 6.0))
@settings(max_examples=10, deadline=None)
def test_a_group_s_epsilon_is_the_least_that_the_formula_allows(copies, noise):
    """Oracle: try δ' on a fine grid, keep those whose group δ is within the promise's, take the best."""
    promise = Promise(noise, 0.05, 200, 1e-5)
    allowed = []
    for nats in np.arange(11.5, 690, 1.0):
        own = promise.epsilon(math.exp(-nats))
        if math.log(copies) + (copies - 1) * own - nats <= math.log(1e-5):
            allowed.append(copies * own)
    found = promise.epsilon_of(copies)
    if not allowed:
        assert found > 100 or math.isinf(found)
    else:
        assert min(allowed) * 0.95 <= found <= min(allowed) + 1e-9


def test_more_copies_are_promised_less():
    found = [PROMISE.epsilon_of(copies) for copies in (1, 2, 4, 8)]
    assert found == sorted(found)
    assert found[1] > 2 * found[0]


def test_a_group_too_large_is_promised_nothing():
    assert PROMISE.epsilon_of(1000) == math.inf


def test_without_noise_nothing_is_promised_and_without_steps_all():
    assert Promise(0.0, 0.1, 10, 1e-5).epsilon() == math.inf
    assert Promise(0.0, 0.1, 10, 1e-5).epsilon_of(2) == math.inf
    assert Promise(1.0, 0.1, 0, 1e-5).epsilon() == 0.0


def test_a_group_has_a_row():
    with pytest.raises(ValueError, match="copies is 0"):
        PROMISE.epsilon_of(0)

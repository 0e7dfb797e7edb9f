"""What DP-SGD promises: opacus' ε for a row, and group privacy's formula for several."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("opacus")

from leakage_tasks.training.dp.accounting import PrivacyGuarantee

PROMISE = PrivacyGuarantee(noise_multiplier=1.1, sample_rate=0.05, steps=200, delta=1e-5)


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
    promise = PrivacyGuarantee(noise, 0.05, 200, 1e-5)
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
    assert PrivacyGuarantee(0.0, 0.1, 10, 1e-5).epsilon() == math.inf
    assert PrivacyGuarantee(0.0, 0.1, 10, 1e-5).epsilon_of(2) == math.inf
    assert PrivacyGuarantee(1.0, 0.1, 0, 1e-5).epsilon() == 0.0


def test_a_group_has_a_row():
    with pytest.raises(ValueError, match="copies is 0"):
        PROMISE.epsilon_of(0)


def test_what_is_told_is_what_is_promised():
    words = PROMISE.describe(3)
    assert words.startswith(f"ε = {PROMISE.epsilon():.3g} for one row, {PROMISE.epsilon_of(3):.3g} for a canary of 3 ")
    assert words.endswith("at δ = 1e-05")
    assert PROMISE.describe() == f"ε = {PROMISE.epsilon():.3g} for one row at δ = 1e-05"


def test_an_infinite_epsilon_is_shown_as_such_and_is_null_in_json():
    import json

    clipped = PrivacyGuarantee(0.0, 0.1, 10, 1e-5)
    assert clipped.describe(4) == "ε = ∞ for one row, ∞ for a canary of 4 copies at δ = 1e-05"
    said = json.loads(json.dumps(clipped.to_json((1, 4)), allow_nan=False))
    assert (said["epsilon"], said["epsilon_by_copies"]) == (None, {"1": None, "4": None})
    assert (
        PrivacyGuarantee(**{name: said[name] for name in ("noise_multiplier", "sample_rate", "steps", "delta")})
        == clipped
    )


def test_in_json_epsilon_is_said_for_each_number_of_copies():
    said = PROMISE.to_json((1, 3))
    assert said["epsilon"] == said["epsilon_by_copies"]["1"] == PROMISE.epsilon()
    assert said["epsilon_by_copies"]["3"] == PROMISE.epsilon_of(3)


def test_a_group_s_delta_is_within_the_promise_s():
    """The formula the other way round: from ε of one row at δ', the group's δ is what basic group privacy gives."""
    copies = 3
    found = PROMISE.epsilon_of(copies)
    low, high = 1e-300, 1e-5
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if copies * PROMISE.epsilon(middle) > found else (low, middle)
    group_delta = sum(math.exp(place * PROMISE.epsilon(high)) for place in range(copies)) * high
    assert group_delta <= 1e-5

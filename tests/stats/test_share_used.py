"""The share of suspected texts that a model was trained on."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.stats.intervals import clopper_pearson
from leakage_tasks.stats.membership import Estimate
from leakage_tasks.stats.share_used import ShareUsed, corrected_share, share_used

KNOWN, ASKED = 120, 60


def simulated(stream: np.random.Generator, share: float, shift: float, group: int = 1) -> tuple[ShareUsed, float]:
    """The estimate from two attacks that are right at times, and one that guesses; the texts of a group are equal.

    Half of the known texts are members.
    """
    members = np.arange(KNOWN + ASKED) < KNOWN // 2
    suspected = np.arange(KNOWN + ASKED) >= KNOWN
    used = members | (suspected & (np.arange(KNOWN + ASKED) < KNOWN + round(share * ASKED / group) * group))
    scores = [stream.normal(size=len(used) // group).repeat(group) + part * shift * used for part in (1.0, 0.5, 0.0)]
    clusters = np.arange(len(used)) // group
    return share_used(scores, members, suspected, clusters % 2 == 0, clusters), float(used[suspected].mean())


@given(st.integers(1, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_the_share_is_the_mean_of_the_corrected_guesses_of_single_texts(asked: int, hits: int, right: int, false: int):
    hits, tpr, fpr = min(hits, asked), Fraction(right, 30), Fraction(false, 30)
    guessed, *rates = (Estimate(float(rate), 0.0, 1.0) for rate in (Fraction(hits, asked), tpr, fpr))
    if tpr <= fpr:
        with pytest.raises(ValueError, match="the rule guesses"):
            corrected_share(guessed, *rates)
        return
    of_texts = [(Fraction(index < hits) - fpr) / (tpr - fpr) for index in range(asked)]
    expected = min(1.0, max(0.0, float(sum(of_texts) / asked)))
    assert corrected_share(guessed, *rates).value == pytest.approx(expected)


def test_the_interval_holds_the_shares_whose_contrast_with_the_rates_may_be_zero():
    guessed, tpr, fpr = Estimate(0.4, 0.3, 0.5), Estimate(0.8, 0.7, 0.9), Estimate(0.2, 0.1, 0.3)
    found = corrected_share(guessed, tpr, fpr)
    assert found.value == pytest.approx(1 / 3)
    for share, fits in ((found.low - 0.002, False), (found.low + 0.002, True), (found.high + 0.002, False)):
        gap = 0.4 - share * 0.8 - (1 - share) * 0.2
        assert (abs(gap) <= 0.1 * (1 + share**2 + (1 - share) ** 2) ** 0.5) is fits
    mixed = corrected_share(guessed, tpr, fpr, mixed=True)
    assert mixed.low < found.low < found.high < mixed.high
    # Suspected texts that are guessed more often than members fit no share.
    assert corrected_share(Estimate(1.0, 0.97, 1.0), tpr, fpr) == (1, 0, 1)


@pytest.mark.parametrize("shift", [1.0, 3.0])
@pytest.mark.parametrize("share", [0.0, 0.5, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.1, 1.0))])
def test_the_interval_holds_the_true_share(share: float, shift: float):
    stream, runs, held = np.random.default_rng(0), 120, 0
    values = []
    for _ in range(runs):
        found, true = simulated(stream, share, shift)
        held += found.share.low <= true <= found.share.high
        values.append(found.share.value)
    assert clopper_pearson(held, runs)[1] >= 0.95
    assert held / runs >= 0.93
    assert np.mean(values) == pytest.approx(share, abs=0.12 if shift == 1 else 0.03)


def test_the_interval_holds_the_true_share_of_texts_in_groups():
    stream = np.random.default_rng(0)
    found = [simulated(stream, 0.5, 2.0, group=3) for _ in range(100)]
    assert sum(each.share.low <= true <= each.share.high for each, true in found) >= 93


def test_the_controls_are_the_estimates_for_known_texts_and_fail_if_halves_differ():
    stream, held = np.random.default_rng(0), 0
    for _ in range(100):
        found = simulated(stream, 0.3, 2.0)[0]
        assert found.of_nonmembers.value < 0.5 < found.of_members.value
        held += found.controls_hold
    assert held >= 90
    assert not found._replace(of_nonmembers=Estimate(0.3, 0.1, 0.5)).controls_hold
    assert not found._replace(of_members=Estimate(0.7, 0.5, 0.9)).controls_hold


def test_too_few_known_texts_and_attacks_that_recognize_nothing_are_refused():
    members, halves, clusters = np.arange(40) < 12, np.arange(40) % 2 == 0, np.arange(40)
    asked, score = np.arange(40) >= 24, [np.arange(40.0)]
    with pytest.raises(ValueError, match="no suspected texts"):
        share_used(score, members, np.zeros(40, bool), halves, clusters)
    with pytest.raises(ValueError, match="3 clusters"):
        share_used(score, members, asked, halves, clusters // 4)
    with pytest.raises(ValueError, match="in one half"):
        share_used(score, members, asked, members, clusters)
    with pytest.raises(ValueError, match="the rule guesses"):
        share_used([np.ones(40)], members, asked, halves, clusters)

"""Estimates of unseen kinds against their definitions, computed by leaving texts out one by one, and by simulation."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leakage_tasks.stats.unseen import count_kinds, kinds_per_token, least_kinds, unseen_share

TEXTS = st.lists(st.lists(st.integers(0, 12), max_size=8), min_size=3, max_size=9)


def found_of(texts):
    return count_kinds([np.array(text, dtype=np.int64) for text in texts])


def frequencies(texts):
    return Counter(Counter(kind for text in texts for kind in set(text)).values())


def chao(texts):
    number = frequencies(texts)
    n, kinds = len(texts), sum(number.values())
    return kinds + (n - 1) / n * number[1] * (number[1] - 1) / (2 * (number[2] + 1))


def good_turing(texts):
    """Share of the kinds of each text that the other texts lack, by comparing every text with all others."""
    new = [len(set(text) - {kind for j, other in enumerate(texts) if j != i for kind in other})
           for i, text in enumerate(texts)]  # fmt: skip
    return sum(new) / sum(len(set(text)) for text in texts)


def jackknife(texts, value):
    """Standard error from the value without each text, computed anew."""
    without = np.array([value([*texts[:i], *texts[i + 1 :]]) for i in range(len(texts))])
    return math.sqrt((len(texts) - 1) / len(texts) * ((without - without.mean()) ** 2).sum())


@given(TEXTS.filter(any))
def test_good_turing_is_the_share_of_kinds_that_the_other_texts_lack(texts):
    assert unseen_share(found_of(texts)).value == pytest.approx(good_turing(texts))


@given(TEXTS.filter(lambda texts: all(texts) and 0 < good_turing(texts) < 1))
def test_the_interval_of_the_unseen_share_is_the_jackknifes(texts):
    reach = stats.t.ppf(0.975, len(texts) - 1) * jackknife(texts, good_turing)
    value, low, high = unseen_share(found_of(texts))
    assert (low, high) == (pytest.approx(max(0, value - reach)), pytest.approx(min(1, value + reach)))


@given(TEXTS)
def test_chao_and_its_interval_are_those_of_texts_left_out_one_by_one(texts):
    estimate, kinds = least_kinds(found_of(texts)), sum(frequencies(texts).values())
    if not frequencies(texts)[2]:
        assert estimate is None
        return
    assert estimate.value == pytest.approx(chao(texts))
    if frequencies(texts)[1] < 2:
        assert estimate == (kinds, kinds, None)
        return
    above = chao(texts) - kinds
    spread = math.sqrt(math.log(1 + (jackknife(texts, chao) / above) ** 2))
    factor = math.exp(stats.t.ppf(0.975, len(texts) - 1) * spread)
    assert estimate[1:] == (pytest.approx(kinds + above / factor), pytest.approx(kinds + above * factor))


@given(TEXTS.filter(lambda texts: sum(map(bool, texts)) > 1))
def test_the_ends_of_the_rate_count_one_more_text_without_kinds_or_with_the_most(texts):
    def rate(chosen):
        return sum(frequencies(chosen).values()) / (20 * len(chosen))

    def reach(chosen):
        return min(stats.t.ppf(0.975, sum(map(bool, texts)) - 1) * jackknife(chosen, rate) / rate(chosen), 700)

    value, low, high = kinds_per_token(found_of(texts), [20] * len(texts), 8)
    poorer, richer = [*texts, []], [*texts, range(100, 108)]
    assert (value, low) == (pytest.approx(rate(texts)), pytest.approx(rate(poorer) / math.exp(reach(poorer))))
    # No sample of these texts can have more than 8 kinds per text.
    assert high == pytest.approx(min(rate(richer) * math.exp(reach(richer)), 8 / 20))


@pytest.mark.parametrize("texts", [10, 30, 100])
@pytest.mark.parametrize(
    ("sizes", "chances"),
    [([0, 207], [0.03, 0.97]), ([0, 207], [0.1, 0.9]), ([0, 1, 207], [0.47, 0.5, 0.03]),
     ([0, 5, 207], [0.79, 0.2, 0.01]), ([0, 10, 207], [0.08, 0.9, 0.02])],
)  # fmt: skip
def test_the_interval_of_the_rate_holds_if_the_sample_lacks_a_size(texts, sizes, chances):
    """Nearly all texts are recited as a whole, or few are and the others show little; all kinds are different."""
    stream, hits = np.random.default_rng(0), 0
    expected = np.dot(sizes, chances) / 256
    for _ in range(300):
        drawn = stream.choice(sizes, size=texts, p=chances)
        parts = np.split(np.arange(drawn.sum()), drawn.cumsum()[:-1])
        _, low, high = kinds_per_token(count_kinds(parts), [256] * texts, 207)
        hits += low <= expected <= high
    assert hits / 300 > 0.93


def test_a_single_text_with_kinds_has_the_upper_end_of_a_share_of_texts():
    value, low, high = kinds_per_token(found_of([[1, 2, 3], [], [], []]), [100] * 4, 30)
    assert (value, low) == (3 / 400, 0)
    assert high == pytest.approx(stats.beta.ppf(0.975, 2, 3) * 30 / 100)


@pytest.mark.parametrize(("texts", "chance"), [(100, 0.05), (300, 0.02)])
def test_the_interval_of_the_rate_holds_if_few_texts_have_kinds(texts, chance):
    """Texts with runs of random lengths, all different: the expected rate is exact."""
    stream, hits = np.random.default_rng(0), 0
    for _ in range(400):
        lengths = stream.geometric(1 / 30, texts) * (stream.random(texts) < chance)
        drawn = np.split(np.arange(lengths.sum()), lengths.cumsum()[:-1])
        _, low, high = kinds_per_token(count_kinds(drawn), [256] * texts, 207)
        hits += low <= 30 * chance / 256 <= high
    assert hits / 400 > 0.93


def test_no_kind_leaves_an_upper_end_and_no_share():
    found = found_of([[], [], [], []])
    assert unseen_share(found) is None
    assert least_kinds(found) is None
    # Up to 60.2 % of texts may hold a kind: 1 − 0.025^(1/4).
    assert kinds_per_token(found, [100] * 4, 30) == (0, 0, pytest.approx((1 - 0.025**0.25) * 30 / 100))
    assert kinds_per_token(found, [0] * 4, 30) is None


def test_intervals_hold_what_they_should_in_simulation():
    """Texts of passages of 5 to 60 kinds, of which a text shows a random stretch: kinds come together."""
    stream = np.random.default_rng(0)
    sizes, chance, texts = stream.integers(5, 60, 60), 1 / np.arange(1, 61), 80
    chance /= chance.sum()
    first = np.cumsum([0, *sizes[:-1]])
    share = np.concatenate([_shown(size) * 0.4 * p for size, p in zip(sizes, chance, strict=True)])
    expected = (1 - (1 - share) ** texts).sum() / (texts * 256)
    hits = np.zeros(3)
    for _ in range(300):
        drawn = [_text(stream, sizes, chance, first) for _ in range(texts)]
        found, seen = count_kinds(drawn), np.zeros(len(share), bool)
        seen[np.concatenate(drawn)] = True
        rest, rate, least = unseen_share(found), kinds_per_token(found, [256] * texts, 207), least_kinds(found)
        left = share[~seen].sum() / share.sum()
        hits += [rest.low <= left <= rest.high, rate.low <= expected <= rate.high, least.low <= sizes.sum()]
    unseen, per_token, bound = hits / 300
    assert unseen > 0.9
    assert per_token > 0.9
    assert bound > 0.97


@pytest.mark.parametrize(("kinds", "texts", "each"), [(200, 10, 2), (1000, 50, 2), (100, 20, 2)])
def test_the_interval_of_equally_frequent_kinds_holds_their_number(kinds, texts, each):
    stream, hits = np.random.default_rng(0), []
    for _ in range(300):
        found = count_kinds([stream.integers(kinds, size=stream.poisson(each)) for _ in range(texts)])
        estimate = least_kinds(found)
        if estimate is not None and estimate.high is not None:
            hits.append(estimate.low <= kinds <= estimate.high)
    assert np.mean(hits) > 0.93


def _text(stream, sizes, chance, first):
    if stream.random() > 0.4:
        return np.zeros(0, np.int64)
    passage = stream.choice(len(sizes), p=chance)
    start = stream.integers(sizes[passage])
    return first[passage] + np.arange(start, stream.integers(start, sizes[passage]) + 1)


def _shown(size):
    """Probability of each kind of a passage to be in a stretch, by trying all stretches."""
    shown = np.zeros(size)
    for start in range(size):
        for end in range(start, size):
            shown[start : end + 1] += 1 / (size * (size - start))
    return shown

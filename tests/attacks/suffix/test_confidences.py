"""Confidences against their formulas in plain Python, and that nothing depends on the order of the draws."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakage_tasks.attacks.suffix.candidates import Candidates, ranked
from leakage_tasks.attacks.suffix.confidences import CONFIDENCES, available, choose, confidence_of
from leakage_tasks.attacks.suffix.trained_confidence import TRAINED, TrainedConfidence
from leakage_tasks.core.errors import OptionError
from tests.drawn import candidates, reordered, validation

getcontext().prec = 60
LENGTH = 5


def of(name: str, drawn: Candidates) -> list[float]:
    return CONFIDENCES[name].of(drawn).tolist()


def perplexities(drawn: Candidates) -> list[float]:
    """exp of the mean token loss in nats."""
    return [math.exp(bits * math.log(2) / LENGTH) for bits in drawn.bits]


def test_perplexity_and_zlib_are_those_of_the_paper():
    drawn = candidates(1)
    assert of("perplexity", drawn) == pytest.approx([1 / each for each in perplexities(drawn)])
    assert of("zlib", drawn) == pytest.approx(
        [size / each for size, each in zip(drawn.zlib, perplexities(drawn), strict=True)]
    )


@pytest.mark.parametrize(("name", "field"), [("comparing_lm", "compared"), ("lowercase", "lowered")])
def test_comparisons_are_ratios_of_perplexities(name, field):
    drawn = candidates(2)
    others = [2**bits for bits in getattr(drawn, field)]
    assert of(name, drawn) == pytest.approx(
        [other / each for other, each in zip(others, perplexities(drawn), strict=True)]
    )


def shares(drawn: Candidates) -> list[float]:
    """r·exp(−|T|·L) over its sum, to sixty digits."""
    weights = [
        int(count) * Decimal(2) ** -Decimal(float(bits)) for count, bits in zip(drawn.counts, drawn.bits, strict=True)
    ]
    return [float(weight / sum(weights)) for weight in weights]


@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from([0.01, 5.0, 900.0]))
def test_calibrated_is_a_share_that_no_number_of_bits_breaks(seed, number, spread):
    drawn = candidates(seed, number, LENGTH, spread)
    found = of("calibrated", drawn)
    assert found == pytest.approx(shares(drawn), rel=1e-9)
    assert math.fsum(found) == pytest.approx(1)


def test_calibrated_counts_draws_where_perplexity_does_not():
    """The paper's Figure 6: drawn 74 times of 100, the first is chosen although it is dearer."""
    two = Candidates(np.array([[1, 2], [1, 3]]), np.array([74, 26]), np.array([6.0, 5.5]), np.array([10, 10]))
    found = choose(two, (1, 2), "calibrated")
    assert (found["calibrated"].place, found["perplexity"].place) == (1, 2)


@given(st.floats(-1e5, 1e5), st.floats(0, 1e5))
def test_confidences_stay_finite(compared, bits):
    one = replace(candidates(0, 1), bits=np.array([bits]), compared=np.array([compared]), lowered=np.array([compared]))
    assert all(np.isfinite(each.of(one)).all() for each in CONFIDENCES.values())


def test_a_confidence_without_its_input_is_not_available():
    drawn = candidates(3)
    assert available(drawn) == tuple(CONFIDENCES)
    found = available(replace(drawn, compared=None, lowered=None))
    assert {*CONFIDENCES} - {*found} == {"comparing_lm", "lowercase"}


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.randoms(use_true_random=False), st.sampled_from([0.0, 1e-9, 20.0]))
def test_the_order_of_draws_changes_nothing(seed, random, spread):
    drawn = replace(candidates(seed, 8, LENGTH, spread), counts=np.random.default_rng(seed).integers(1, 3, 8))
    order = random.sample(range(8), 8)
    truth = tuple(drawn.tokens[3])
    assert choose(reordered(drawn, order), truth, "calibrated") == choose(drawn, truth, "calibrated")


def test_the_order_of_draws_changes_nothing_for_a_trained_confidence():
    trained, drawn = TrainedConfidence.fit(validation(40, 0)), validation(1, 9)[0][0]
    order = np.random.default_rng(0).permutation(len(drawn.counts))
    assert (trained.confidence(drawn)[order] == trained.confidence(reordered(drawn, order))).all()


def test_equally_sure_candidates_go_by_bits_then_by_tokens():
    tokens = np.array([[2, 1], [1, 9], [1, 3], [0, 0]])
    drawn = Candidates(tokens, np.ones(4, int), np.array([1.0, 1.0, 1.0, 2.0]), np.full(4, 9))
    assert ranked(drawn, np.full(4, 0.5)).tolist() == [2, 1, 0, 3]


@given(st.integers(0, 10_000))
def test_a_choice_says_what_the_plain_loop_says(seed):
    drawn = candidates(seed)
    truth = tuple(int(token) for token in drawn.tokens[seed % 6])
    found = choose(drawn, truth, "zlib")
    headline = max(range(6), key=lambda place: of("zlib", drawn)[place])
    for name, choice in found.items():
        values = of(name, drawn)
        order = [(value, -bits) for value, bits in zip(values, drawn.bits, strict=True)]
        best = max(range(6), key=lambda place: order[place])
        assert choice.confidence == values[best]
        assert choice.of_headline == values[headline]
        assert choice.place == 1 + sum(each > order[seed % 6] for each in order)
        assert choice.wrong == sum(a != b for a, b in zip(drawn.tokens[best], truth, strict=True)) / LENGTH
        assert (choice.count, choice.bits) == (drawn.counts[best], drawn.bits[best])


def test_a_suffix_never_drawn_has_no_place():
    assert {each.place for each in choose(candidates(4), (8, 8, 8, 8, 99), "zlib").values()} == {None}


def test_choices_are_strict_json():
    found = {name: asdict(choice) for name, choice in choose(candidates(5), (0,) * LENGTH, "zlib").items()}
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_a_trained_confidence_stands_beside_the_others():
    examples = validation(40, 0)
    trained = TrainedConfidence.fit(examples)
    drawn, truth = examples[0]
    found = choose(drawn, truth, TRAINED, trained)
    assert list(found) == [*available(drawn), TRAINED]
    assert found[TRAINED].confidence == found[TRAINED].of_headline == trained.confidence(drawn).max()


def test_a_trained_confidence_is_left_out_where_draws_do_not_tell_what_it_goes_by():
    trained = TrainedConfidence.fit(validation(40, 0))
    drawn, truth = validation(1, 5)[0]
    assert trained.lacks(drawn) == ()
    silent = replace(drawn, zlib=None)
    assert trained.lacks(silent) == ("zlib",)
    assert list(choose(silent, truth, "calibrated", trained)) == list(available(silent))
    with pytest.raises(OptionError, match="needs 'zlib'"):
        choose(silent, truth, TRAINED, trained)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("comparing_lm", "needs a second model"),
        ("lowercase", "needs texts scored in lower case"),
        ("zlib", "needs compressed texts"),
        (TRAINED, "has not been fitted on a validation split"),
        ("zlip", "is unknown"),
    ],
)
def test_a_confidence_that_cannot_be_had_is_refused_with_those_that_can(name, reason):
    bare = replace(candidates(6), compared=None, lowered=None, zlib=None)
    with pytest.raises(OptionError, match=f"confidence='{name}' {reason}.*: use {', '.join(available(bare))}$"):
        confidence_of(bare, name)


@pytest.mark.parametrize("truth", [(1, 2), (1,) * 6])
def test_a_truth_of_another_length_is_a_mistake(truth):
    with pytest.raises(ValueError, match="6 candidates of 5 tokens"):
        choose(candidates(7), truth, "zlib")

"""The trained confidence against scikit-learn used by hand, and that it learns what counts say."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from leakage_tasks.attacks.suffix.confidences import CONFIDENCES
from leakage_tasks.attacks.suffix.trained_confidence import (
    NothingToFit,
    TrainedConfidence,
    features,
)
from leakage_tasks.core.errors import OptionError
from tests.drawn import reordered, validation

TRAIN, TEST = validation(120, 1), validation(120, 2)


@pytest.fixture(scope="module")
def trained() -> TrainedConfidence:
    return TrainedConfidence.fit(TRAIN)


def by_hand(drawn):
    """The features again, a candidate at a time."""
    rows = []
    total, length = int(sum(drawn.counts)), len(drawn.tokens[0])
    weights = [float(count) * 2.0 ** -float(bits) for count, bits in zip(drawn.counts, drawn.bits, strict=True)]
    for place, weight in enumerate(weights):
        rivals = -np.log2(weight / sum(weights))
        rows.append(
            [
                drawn.bits[place] / length,
                drawn.counts[place] / total,
                max(rivals, 0) ** 0.5,
                drawn.zlib[place] / length,
                drawn.lowest[place],
                drawn.margin[place],
                drawn.entropy[place],
            ]
        )
    return rows


def labels(examples):
    return [int(tuple(row) == truth) for drawn, truth in examples for row in drawn.tokens.tolist()]


def test_it_is_scikit_learns_logistic_regression(trained):
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    pipeline.fit([row for drawn, _ in TRAIN for row in by_hand(drawn)], [bool(label) for label in labels(TRAIN)])
    for drawn, _ in TEST:
        assert trained.confidence(drawn) == pytest.approx(pipeline.predict_proba(by_hand(drawn))[:, 1], abs=1e-4)


def test_it_tells_right_from_wrong_better_than_perplexity_where_counts_matter(trained):
    def area(confidence):
        return roc_auc_score(labels(TEST), np.concatenate([confidence(drawn) for drawn, _ in TEST]))

    assert area(trained.confidence) > area(CONFIDENCES["perplexity"].of) + 0.2
    assert area(trained.confidence) > 0.85


def test_its_confidences_are_probabilities(trained):
    mean = np.concatenate([trained.confidence(drawn) for drawn, _ in TEST]).mean()
    assert mean == pytest.approx(np.mean(labels(TEST)), abs=0.03)


def test_it_knows_what_it_was_fitted_on(trained):
    assert (trained.rows, trained.right) == (len(labels(TRAIN)), sum(labels(TRAIN)))


def test_the_order_of_pairs_and_draws_changes_nothing(trained):
    shuffled = [
        (reordered(drawn, np.random.default_rng(place).permutation(len(drawn.counts))), truth)
        for place, (drawn, truth) in enumerate(TRAIN)
    ]
    random.Random(0).shuffle(shuffled)
    again = TrainedConfidence.fit(shuffled)
    assert asdict(again) == asdict(trained)


def test_it_goes_through_strict_json(trained):
    data = json.loads(trained.to_json(), parse_constant=pytest.fail)
    assert {name: tuple(each) if isinstance(each, list) else each for name, each in data.items()} == asdict(trained)


def test_thousands_of_bits_are_no_trouble(trained):
    drawn = TEST[0][0]
    dear = replace(drawn, bits=drawn.bits + 1e5 * np.arange(len(drawn.bits)))
    assert np.isfinite(features(dear, trained.names)).all()
    assert ((trained.confidence(dear) >= 0) & (trained.confidence(dear) <= 1)).all()


def without(examples):
    return [(replace(drawn, lowest=None, margin=None, entropy=None), truth) for drawn, truth in examples]


def test_it_does_without_what_no_model_tells():
    trained = TrainedConfidence.fit(without(TRAIN))
    assert not set(trained.names) & {"lowest", "margin", "entropy"}
    assert len(trained.confidence(without(TEST)[0][0])) == len(TEST[0][0].counts)


def test_draws_that_tell_less_than_those_it_was_fitted_on_are_refused(trained):
    with pytest.raises(
        OptionError, match="needs 'lowest', which these draws do not have: fit and use it on draws of one model"
    ):
        trained.confidence(without(TEST)[0][0])


def test_draws_of_two_kinds_cannot_be_fitted_together():
    with pytest.raises(OptionError, match="which these draws do not have"):
        TrainedConfidence.fit([*TRAIN[:5], *without(TRAIN[5:])])


def test_nothing_right_cannot_be_fitted():
    never = [(drawn, tuple(token + 1 for token in drawn.tokens[0].tolist())) for drawn, _ in TRAIN]
    with pytest.raises(NothingToFit, match="0 of .* are true suffixes.*: use more validation pairs"):
        TrainedConfidence.fit(never)


def test_nothing_wrong_cannot_be_fitted():
    always = [(reordered(drawn, [0]), tuple(drawn.tokens[0].tolist())) for drawn, _ in TRAIN[:9]]
    with pytest.raises(NothingToFit, match="9 of 9 suffixes.*the fit needs true and wrong suffixes"):
        TrainedConfidence.fit(always)


def test_no_pairs_cannot_be_fitted():
    with pytest.raises(NothingToFit, match="the model accepts no validation pair"):
        TrainedConfidence.fit([])

"""Blind baselines find what is planted in the texts, find nothing where nothing is, and ignore the order of texts."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from leakage_tasks.attacks.membership.blind.baselines import BASELINES, BlindTexts, above_quantiles
from leakage_tasks.attacks.membership.blind.folds import grouped_folds, text_digests
from leakage_tasks.attacks.membership.blind.scores import blind_scores
from tests.attacks.membership.blind.made_texts import LATER_YEARS, made_sets, made_text

NUMBER = 60
MEMBERS = [True] * NUMBER + [False] * NUMBER


def areas(texts: list[str], **given: object) -> dict[str, float]:
    return {name: roc_auc_score(MEMBERS, of) for name, of in blind_scores(texts, MEMBERS, **given).items()}


def test_later_dates_are_found() -> None:
    found = areas(made_sets(NUMBER, years=LATER_YEARS))
    assert found["dates"] > 0.9
    assert found["rare-words"] > 0.9
    assert found["length"] < 0.75


def test_longer_texts_are_found() -> None:
    assert areas(made_sets(NUMBER, words=200))["length"] > 0.95


@pytest.mark.parametrize("name", ["words", "word-ngrams", "rare-words"])
def test_a_word_of_members_alone_is_found(name: str) -> None:
    stream = random.Random(5)
    texts = [made_text(stream, extra="zzyzx") for _ in range(NUMBER)] + [made_text(stream) for _ in range(NUMBER)]
    assert areas(texts)[name] > 0.8


def test_a_pair_of_words_is_found_by_n_grams_only() -> None:
    stream = random.Random(5)
    orders = ["yes no"] * NUMBER + ["no yes"] * NUMBER
    found = areas([f"{made_text(stream, 20)} {order}" for order in orders])
    assert found["word-ngrams"] > 0.95
    assert found["character-ngrams"] > 0.9
    assert found["words"] < 0.75


def test_equal_sets_are_not_separated() -> None:
    found = [areas(made_sets(NUMBER, seed=seed)) for seed in range(8)]
    for name in BASELINES:
        assert np.mean([of[name] for of in found]) == pytest.approx(0.5, abs=0.09)


def test_the_order_of_texts_does_not_matter() -> None:
    texts = made_sets(NUMBER, years=LATER_YEARS)
    clusters = [f"book {index // 3}" for index in range(2 * NUMBER)]
    order = random.Random(1).sample(range(2 * NUMBER), 2 * NUMBER)
    whole = blind_scores(texts, MEMBERS, clusters)
    shuffled = blind_scores(*([of[index] for index in order] for of in (texts, MEMBERS, clusters)))
    for name, scores in whole.items():
        assert shuffled[name] == [scores[index] for index in order]


def test_exchanged_classes_reverse_every_baseline() -> None:
    texts = made_sets(NUMBER, years=LATER_YEARS)
    one, other = blind_scores(texts, MEMBERS), blind_scores(texts, [not member for member in MEMBERS])
    for name, scores in one.items():
        # The solver of the logistic regression ends at a tolerance, so nearly equal scores may change places.
        assert stats.spearmanr(scores, other[name]).statistic < -0.99


def test_a_label_changes_no_score_in_its_own_fold() -> None:
    """A classifier never sees the class of a text that it scores: exchanging classes in one fold leaves its scores."""
    texts = made_sets(NUMBER)
    fold = grouped_folds(text_digests(texts, 0), MEMBERS, range(len(texts))) == 2
    one, other = (
        BlindTexts(tuple(texts), np.where(fold, flipped, MEMBERS))
        for flipped in (np.array(MEMBERS), ~np.array(MEMBERS))
    )
    for baseline in BASELINES.values():
        assert np.array_equal(baseline(one, fold), baseline(other, fold))


def test_clusters_are_not_recognized_by_their_words() -> None:
    """Every text of a cluster has a word of its own, so folds that split clusters would separate the classes."""
    stream = random.Random(2)
    clusters = [index // 6 for index in range(2 * NUMBER)]
    texts = [made_text(stream, 20, extra=f"mark{cluster:03}") for cluster in clusters]
    assert roc_auc_score(MEMBERS, blind_scores(texts, MEMBERS)["rare-words"]) > 0.9
    assert roc_auc_score(MEMBERS, blind_scores(texts, MEMBERS, clusters)["rare-words"]) < 0.8


def test_scores_are_ranks_and_repeatable() -> None:
    texts = made_sets(NUMBER)
    found = blind_scores(texts, MEMBERS)
    assert found == blind_scores(texts, MEMBERS)
    for scores in found.values():
        assert np.mean(scores) == pytest.approx(0.5)
        assert 0 < min(scores) < max(scores) < 1


def test_texts_without_words_or_dates_are_scored() -> None:
    found = blind_scores(["", "…", "", "?!", "…", ""], [True, True, True, False, False, False], range(6))
    assert set(found["dates"]) == {0.5}
    assert set(found["words"]) == {0.5}


def test_the_bag_of_words_is_a_logistic_regression_on_tf_idf() -> None:
    """Oracle: tf-idf by its formula, over words of two texts or more, and scikit-learn's regression on the rest."""
    texts, members = made_sets(20, years=LATER_YEARS), np.array([True] * 20 + [False] * 20)
    fold = np.arange(40) % 5 == 0
    words = sorted({word for text in texts for word in text.split()})
    counts = np.array([[text.split().count(word) for word in words] for text in texts], float)
    counts = counts[:, (counts > 0).sum(axis=0) >= 2]
    idf = np.log(41 / (1 + (counts > 0).sum(axis=0))) + 1
    table = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * idf
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    model = LogisticRegression(C=10, class_weight="balanced", solver="liblinear", max_iter=200)
    expected = model.fit(table[~fold], members[~fold]).decision_function(table[fold])
    found = BASELINES["words"](BlindTexts(tuple(texts), members), fold)
    assert found == pytest.approx(expected, abs=1e-3)


def test_naive_bayes_is_the_mean_log_odds_of_the_words() -> None:
    texts = ("a b", "a c", "b c", "a b c", "a c")
    members, fold = np.array([True, True, False, False, True]), np.array([False, False, False, False, True])
    # Of two members and two non-members, with one text more: a 3/4 : 2/4, c 2/4 : 3/4, "a c" 2/4 : 1/4.
    expected = np.mean([np.log(3 / 2), np.log(2 / 3), np.log(2)])
    found = BASELINES["word-ngrams"](BlindTexts(texts, members), fold)
    assert found == pytest.approx([expected])


def test_steps_are_above_their_quantiles() -> None:
    table = above_quantiles(np.arange(17.0)[:, None])
    assert table.shape == (17, 16)
    assert table.sum(axis=1).tolist() == list(range(17))

"""The blind baselines: functions from texts and a fold to scores of the texts of that fold.

A score is higher if a text is more like the members outside its fold. All baselines give both classes equal weight, so
that scores of folds with different shares of members are comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from leakage_tasks.attacks.membership.blind.features import feature_table
from leakage_tasks.core.arrays import BoolArray, FloatArray

LEAST_TEXTS = 2
"""Minimum number of texts with a word or n-gram. One that is in a single text says nothing about another text."""
_QUANTILES = 16


@dataclass(frozen=True)
class BlindTexts:
    """Texts, and which of them are members.

    The tables below are computed from all texts; no label enters them.
    """

    texts: tuple[str, ...]
    members: BoolArray

    @cached_property
    def words(self) -> Any:
        """Counts of words, sparse, ``[texts, words]``."""
        return _counts(self.texts, analyzer="word", token_pattern=r"(?u)\w+")

    @cached_property
    def tf_idf(self) -> Any:
        """Logarithmic counts of words by inverse document frequency, sparse, ``[texts, words]``."""
        from sklearn.feature_extraction.text import TfidfTransformer

        return TfidfTransformer(sublinear_tf=True).fit_transform(self.words)

    @cached_property
    def word_ngrams(self) -> Any:
        """Presence of words and pairs of words, sparse, ``[texts, n-grams]``."""
        return _counts(self.texts, analyzer="word", token_pattern=r"(?u)\w+", ngram_range=(1, 2), binary=True)

    @cached_property
    def character_ngrams(self) -> Any:
        """Presence of sequences of four characters, sparse, ``[texts, n-grams]``."""
        return _counts(self.texts, analyzer="char", ngram_range=(4, 4), lowercase=False, binary=True)

    @cached_property
    def dates(self) -> FloatArray:
        """Features of dates in steps, ``[texts, steps]``."""
        return above_quantiles(feature_table(self.texts, dates=True))

    @cached_property
    def lengths(self) -> FloatArray:
        """Features of length and style in steps, ``[texts, steps]``."""
        return above_quantiles(feature_table(self.texts, dates=False))


Baseline = Callable[[BlindTexts, BoolArray], FloatArray]
"""A function from the texts and a mask of the fold's texts to the scores of these texts."""


def _counts(texts: Sequence[str], **settings: Any) -> Any:
    # scikit-learn loads pandas, which takes a second.
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import CountVectorizer

    try:
        table = CountVectorizer(**settings).fit_transform(texts)
    except ValueError:  # no text has a word
        return csr_matrix((len(texts), 1))
    texts_with = np.bincount(table.indices, minlength=table.shape[1])
    kept = table[:, texts_with >= LEAST_TEXTS]
    return kept if kept.shape[1] else csr_matrix((len(texts), 1))


def words(sample: BlindTexts, fold: BoolArray) -> FloatArray:
    """Score a bag of words: logistic regression on tf-idf with logarithmic counts."""
    return _logistic(sample.tf_idf, sample, fold, strength=10.0)


def word_ngrams(sample: BlindTexts, fold: BoolArray) -> FloatArray:
    """Score the words and pairs of words in a text by naive Bayes."""
    return _naive_bayes(sample.word_ngrams, sample.members, fold)


def character_ngrams(sample: BlindTexts, fold: BoolArray) -> FloatArray:
    """Score the sequences of four characters in a text by naive Bayes."""
    return _naive_bayes(sample.character_ngrams, sample.members, fold)


def _naive_bayes(table: Any, members: BoolArray, fold: BoolArray) -> FloatArray:
    """Return the mean over a text's n-grams of the log-odds that a member has the n-gram, ``[texts of the fold]``."""
    odds = _log_odds(table[~fold], members[~fold])
    tested = table[fold]
    sizes = np.maximum(np.asarray(tested.sum(axis=1), np.float64).ravel(), 1.0)
    return np.asarray(tested @ odds, np.float64) / sizes


def _log_odds(table: Any, members: BoolArray) -> FloatArray:
    """Return the log of the ratio of the shares of members and of non-members with an n-gram, with one text more in
    each class and one that has the n-gram."""
    seen, unseen = (np.asarray(table[of].sum(axis=0), np.float64).ravel() for of in (members, ~members))
    shares = (seen + 1) / (members.sum() + 2), (unseen + 1) / ((~members).sum() + 2)
    return np.asarray(np.log(shares[0]) - np.log(shares[1]), np.float64)


def rare_words(sample: BlindTexts, fold: BoolArray) -> FloatArray:
    """Score a text by the words with the largest ratio of true to false positives for each class.

    This is a version for scores of the greedy selection of n-grams of Das, Zhang and Tramèr (2024): they accept a text
    if it has one of the n-grams with the largest ratio.
    """
    odds = _log_odds((sample.words > 0)[~fold], sample.members[~fold])
    tested = sample.words[fold].tocsr()
    ends = zip(tested.indptr[:-1], tested.indptr[1:], strict=True)
    strongest = [odds[tested.indices[start:end]] for start, end in ends]
    return np.array([of.max() + of.min() if len(of) else 0.0 for of in strongest], np.float64)


def dates(sample: BlindTexts, fold: BoolArray) -> FloatArray:
    """Score the latest, earliest and mean date in a text and the number of dates by logistic regression."""
    return _logistic(sample.dates, sample, fold, strength=1.0)


def length(sample: BlindTexts, fold: BoolArray) -> FloatArray:
    """Score the length and style of a text by logistic regression."""
    return _logistic(sample.lengths, sample, fold, strength=1.0)


def above_quantiles(table: FloatArray) -> FloatArray:
    """Return for each value whether it is above each of :data:`_QUANTILES` quantiles of its column, as 1 or 0.

    A linear function of these numbers can be any step function of a column, such as a threshold on the year.
    """
    inner = np.linspace(0, 1, _QUANTILES + 2)[1:-1]
    edges = [np.unique(np.quantile(column, inner, method="inverted_cdf")) for column in table.T]
    return np.hstack([column[:, None] > edge for column, edge in zip(table.T, edges, strict=True)]).astype(np.float64)


def _logistic(table: Any, sample: BlindTexts, fold: BoolArray, strength: float) -> FloatArray:
    """Return the scores of a logistic regression with L2 penalty 1/``strength``."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=strength, class_weight="balanced", solver="liblinear", max_iter=200)
    model.fit(table[~fold], sample.members[~fold])
    return np.asarray(model.decision_function(table[fold]), np.float64)


BASELINES: dict[str, Baseline] = {
    "words": words,
    "word-ngrams": word_ngrams,
    "character-ngrams": character_ngrams,
    "rare-words": rare_words,
    "dates": dates,
    "length": length,
}
"""The blind baselines by name."""

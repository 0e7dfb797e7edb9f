"""Values of one written text for the metrics of ``untargeted_extraction``, and their aggregation over texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from leakage_tasks.attacks.untargeted.finding import Hits, UntargetedFinding
from leakage_tasks.core.arrays import IntArray
from leakage_tasks.metrics.aggregates import estimate_of, number_of, of_defined
from leakage_tasks.stats import unseen
from leakage_tasks.stats.paired import Difference, rate_difference
from leakage_tasks.stats.unseen import Found, UnseenEstimate

MILLION = 1e6
_DOCUMENT = 1 << 32

Places = tuple[tuple[int, int, int], ...]


class UntargetedView(NamedTuple):
    """A finding in one column of results: ``none`` for the whole run, or the name of a kind of prompts."""

    column: str
    finding: UntargetedFinding


class TextNgrams(NamedTuple):
    """The n-grams of one text that occur in a corpus, as places of a finding; ``most`` is the largest possible
    number."""

    tokens: int
    most: int
    places: Places


class TextRuns(NamedTuple):
    """The runs of one text that occur in a corpus: document, offset and length of each."""

    runs: Places


class Paired(NamedTuple):
    """True if a text contains a run of the corpus, and if it contains one of the controls."""

    corpus: bool
    controls: bool


def ngrams_of(hits: Hits | None, finding: UntargetedFinding) -> TextNgrams | None:
    """Return the n-grams of a text among ``hits``; None if the text was not searched."""
    if hits is None:
        return None
    most = max(finding.tokens - finding.run_length + 1, 1)
    return TextNgrams(finding.tokens, most, hits.ngrams)


def runs_of(hits: Hits | None, length: int) -> TextRuns | None:
    """Return the runs of at least ``length`` tokens; None if the text was not searched."""
    if hits is None:
        return None
    return TextRuns(tuple((document, offset, size) for _, size, document, offset in hits.runs if size >= length))


def longest_run(hits: Hits | None) -> float | None:
    """Return the number of tokens of the longest recorded run, 0 without one; None if the text was not searched."""
    return None if hits is None else float(max((run[1] for run in hits.runs), default=0))


def _ids(text: TextNgrams) -> IntArray:
    """Return a number for each n-gram of a text, equal for equal n-grams."""
    parts = [document * _DOCUMENT + offset + np.arange(count) for document, offset, count in text.places]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


@lru_cache(maxsize=8)
def _found(texts: tuple[TextNgrams, ...]) -> Found:
    return unseen.count_kinds([_ids(text) for text in texts])


def _per_million(texts: Sequence[TextNgrams]) -> UnseenEstimate | None:
    # The longest text bounds what any text may hold.
    most = max(text.most for text in texts)
    rate = unseen.kinds_per_token(_found(tuple(texts)), [text.tokens for text in texts], most)
    if rate is None:
        return None
    low, high = (None if end is None else end * MILLION for end in rate[1:])
    return UnseenEstimate(rate.value * MILLION, low, high)


def _unseen_share(texts: Sequence[TextNgrams]) -> UnseenEstimate | None:
    return unseen.unseen_share(_found(tuple(texts)))


def _least(texts: Sequence[TextNgrams]) -> UnseenEstimate | None:
    return unseen.least_kinds(_found(tuple(texts)))


PER_MILLION, UNSEEN, LEAST = (estimate_of(compute, "jackknife") for compute in (_per_million, _unseen_share, _least))
"""The aggregation of a metric, and the interval around it."""


@of_defined
def different_ngrams(texts: list[TextNgrams]) -> float:
    """Return the number of different n-grams in all texts."""
    return _found(tuple(texts)).kinds


@of_defined
def different_runs(texts: list[TextRuns]) -> float:
    """Return the number of different runs in all texts."""
    return len({run for text in texts for run in text.runs})


@of_defined
def total(values: list[float]) -> float:
    """Return the sum."""
    return sum(values)


def _difference(pairs: Sequence[Paired]) -> Difference:
    return rate_difference([pair.controls for pair in pairs], [pair.corpus for pair in pairs])


EXCESS, EXCESS_ENDS = estimate_of(_difference, "Newcombe")
"""The share of texts with a run of the corpus minus the share with a run of the controls, and its interval."""
EXCESS_P = number_of(_difference, lambda difference: difference.p)
"""The two-sided p-value of the exact McNemar test of this difference."""

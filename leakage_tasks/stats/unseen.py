"""Estimates of what a sample has not shown yet, from the kinds found in each of ``n`` independent texts.

A kind is anything that can be found again, such as a 50-gram of a corpus. Kinds of one text depend on each other, so
texts are the sampling units, and all intervals come from the jackknife over texts (Efron and Stein 1981: its variance
is not too small on average).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.stats.intervals import LEVEL, clopper_pearson


class UnseenEstimate(NamedTuple):
    """A value with its 95 % interval; an end is None if it is unknown."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, eq=False)
class Found:
    """The number of texts that contain each kind, summed up.

    ``texts`` is the number of texts, ``of_text`` the number of different kinds in each, ``[n]``; ``once``, ``twice``
    and ``thrice`` are the numbers of its kinds that are in one, two and three texts in all, ``[n]``; ``kinds`` is the
    number of different kinds in all texts.
    """

    kinds: int
    of_text: IntArray
    once: IntArray
    twice: IntArray
    thrice: IntArray

    @property
    def texts(self) -> int:
        """Number of texts."""
        return len(self.of_text)


def count_kinds(texts: Sequence[IntArray]) -> Found:
    """Count the kinds of texts; each text is a list of the numbers of its kinds, which may repeat."""
    unique = [np.unique(kinds) for kinds in texts]
    joined = np.concatenate(unique) if unique else np.zeros(0, np.int64)
    known, which, counts = np.unique(joined, return_inverse=True, return_counts=True)
    owner = np.repeat(np.arange(len(unique)), [len(kinds) for kinds in unique])
    by_count = [
        np.bincount(owner[counts[which] == number], minlength=len(unique)).astype(np.int64) for number in (1, 2, 3)
    ]
    return Found(len(known), np.array([len(kinds) for kinds in unique], np.int64), *by_count)


def unseen_share(found: Found) -> UnseenEstimate | None:
    """Return the Good-Turing estimate of the share of kinds in a further text that no text so far contains.

    This is the number of kinds in exactly one text, divided by the sum over texts of the number of their kinds (Good
    1953). If all kinds, or none, were found once, the end of the interval is Clopper-Pearson's over texts with a kind.
    None without any kind.
    """
    total, once = int(found.of_text.sum()), int(found.once.sum())
    if not total:
        return None
    with_kinds = int((found.of_text > 0).sum())
    value = once / total
    if once in (0, total):
        low, high = clopper_pearson(with_kinds * (once == total), with_kinds)
        return UnseenEstimate(value, low, high)
    # Without a text, its own kinds are gone, and kinds that one other text shares with it are found once.
    left = total - found.of_text
    without = np.where(left > 0, (once - found.once + found.twice) / np.maximum(left, 1), value)
    reach = _reach(without, with_kinds)
    return UnseenEstimate(value, max(0.0, value - reach), min(1.0, value + reach))


def least_kinds(found: Found) -> UnseenEstimate | None:
    """Return the estimate of a lower bound on the number of kinds that infinitely many texts would contain.

    Chao's estimator for samples of several kinds each (Chao 1987): kinds + (n − 1) / n · f1 (f1 − 1) / (2 (f2 + 1)),
    with f1 and f2 kinds in one and in two texts. Its interval is log-normal above the number of kinds found. Kinds that
    come together make the estimate itself too high at times; the lower end of the interval is the bound to quote. None
    without a kind in exactly two texts, because the sample then does not show how often kinds return.
    """
    once, twice = int(found.once.sum()), int(found.twice.sum()) // 2
    if not twice:
        return None
    value = _chao(found.kinds, once, twice, found.texts)
    if value == found.kinds:
        return UnseenEstimate(value, value, None)
    # Leaving a text out turns its kinds of frequency 2 into 1, and 3 into 2.
    without = np.array(
        [
            _chao(found.kinds - a, once - a + b, twice - b + c, found.texts - 1)
            for a, b, c in zip(found.once.tolist(), found.twice.tolist(), found.thrice.tolist(), strict=True)
        ]
    )
    above = value - found.kinds
    error = min(_error(without) / above, 1e150)
    factor = math.exp(min(_student(found.texts) * math.sqrt(math.log1p(error**2)), 700.0))
    return UnseenEstimate(value, found.kinds + above / factor, found.kinds + above * factor)


def kinds_per_token(found: Found, tokens: Sequence[int], most: int) -> UnseenEstimate | None:
    """Return the number of different kinds per token, for the number of ``tokens`` of each text.

    The interval is log-normal, with Student's t for the number of texts with a kind: the other texts do not show how
    much the numbers of kinds differ. Each end counts one more text, as long as the longest: without a kind for the
    lower end, with ``most`` new kinds, the largest possible number, for the upper end. So a text unlike all others,
    which a sample may lack, is within the interval. With fewer than two texts with a kind the lower end is 0, and the
    upper end assumes that as many texts as Clopper and Pearson allow have ``most`` kinds. None without tokens.
    """
    lengths = np.array(tokens, dtype=np.float64)
    total = float(lengths.sum())
    if not total:
        return None
    value, with_kinds = found.kinds / total, int((found.of_text > 0).sum())
    if with_kinds < 2:
        share = clopper_pearson(with_kinds, found.texts)[1]
        return UnseenEstimate(value, 0.0, max(value, share * most * found.texts / total))
    low, high = _rate_end(found, lengths, 0, -1.0, with_kinds), _rate_end(found, lengths, most, 1.0, with_kinds)
    return UnseenEstimate(value, min(value, low), max(value, min(high, most * found.texts / total)))


def _rate_end(found: Found, lengths: FloatArray, extra: int, sign: float, units: int) -> float:
    """Return an end of the interval of the kinds per token, counting one more text with ``extra`` kinds of its own."""
    lengths, once = np.append(lengths, lengths.max()), np.append(found.once, extra)
    total, kinds = float(lengths.sum()), found.kinds + extra
    rate, left = kinds / total, total - lengths
    without = np.where(left > 0, (kinds - once) / np.maximum(left, 1), rate)
    return rate * math.exp(sign * min(_reach(without, units) / rate, 700.0))


def _chao(kinds: int, once: int, twice: int, texts: int) -> float:
    return kinds + (texts - 1) / texts * once * (once - 1) / (2 * (twice + 1))


def _reach(without: FloatArray, units: int) -> float:
    """Return half the width of a 95 % interval from the values without each text; Student's t with ``units`` − 1."""
    return _student(units) * _error(without) if units > 1 else math.inf


def _student(units: int) -> float:
    return float(stats.t.ppf((1 + LEVEL) / 2, units - 1))


def _error(without: FloatArray) -> float:
    """Return the jackknife's standard error from the values without each text."""
    number = len(without)
    return math.sqrt((number - 1) / number * float(((without - without.mean()) ** 2).sum()))

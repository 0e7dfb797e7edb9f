"""How sure an attacker is of each suffix drawn after one prefix: Ethicist's confidence and those it is compared with.

All are computed from one set of draws; the higher, the surer (Zhang et al. 2023, sections 3.3 and 4.2). One can be
learnt besides: the probability that a suffix drawn is the true one, from what drawing it has shown, which section 5
names as future work. This is a logistic regression over a handful of numbers that cost nothing beyond the draws, fitted
on pairs of the validation split.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from operator import attrgetter

import numpy as np
from scipy.special import expit

from leakage_tasks.attacks.suffix.finding import Choice
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.inputs import parse_json

TRAINED = "trained"
"""The name a fitted confidence goes by, beside those of :data:`CONFIDENCES`."""
_LARGEST = 1000.0
"""Exponents of 2 beyond this would be infinite or 0."""


@dataclass(frozen=True)
class Candidates:
    """The ``n`` distinct suffixes of ``m`` tokens among the draws after one prefix, no two alike.

    Costs are those of the model's own distribution (temperature 1, nothing truncated), in bits. What only some models
    can tell is None for the others.
    """

    tokens: IntArray
    """Token ids, shape ``[n, m]``."""
    counts: IntArray
    """How many of the draws each was, shape ``[n]``."""
    bits: FloatArray
    """−log2 P(suffix | prefix), shape ``[n]``."""
    zlib: IntArray | None = None
    """Bytes of each suffix's text after compression with zlib, shape ``[n]``."""
    lowest: FloatArray | None = None
    """Smallest probability of a token, shape ``[n]``."""
    margin: FloatArray | None = None
    """Mean over tokens of P(token) − P(likeliest other token), shape ``[n]``."""
    entropy: FloatArray | None = None
    """Mean over tokens of the entropy of the next-token distribution in bits, shape ``[n]``."""
    lowered: FloatArray | None = None
    """Bits a token of the lower-cased text after the same prefix, shape ``[n]``."""
    compared: FloatArray | None = None
    """Bits a token under the model compared with, shape ``[n]``."""

    @property
    def length(self) -> int:
        """Tokens of a suffix, ``m``."""
        return self.tokens.shape[1]

    @property
    def bits_a_token(self) -> FloatArray:
        """Their costs a token, shape ``[n]``."""
        return self.bits / self.length


def calibrated_bits(candidates: Candidates) -> FloatArray:
    """−log2 of the calibrated confidence, shape ``[n]``: r·exp(−|T|·L) over its sum, in logarithms throughout."""
    bits = candidates.bits - np.log2(candidates.counts)
    above = bits - bits.min()
    # fsum rounds once, so that the order of the draws changes not even the last bit.
    return above + math.log2(math.fsum(np.exp2(-above)))


@dataclass(frozen=True)
class Confidence:
    """``of`` gives the confidence in each of ``n`` candidates, finite, shape ``[n]``.

    ``needs`` is the field of :class:`Candidates` without which there is none.
    """

    name: str
    words: str
    of: Callable[[Candidates], FloatArray]
    needs: str | None = None


def _calibrated(candidates: Candidates) -> FloatArray:
    return np.exp2(-calibrated_bits(candidates))


def _perplexity(candidates: Candidates) -> FloatArray:
    return _power(-candidates.bits_a_token)


def _zlib(candidates: Candidates) -> FloatArray:
    assert candidates.zlib is not None
    return candidates.zlib * _perplexity(candidates)


def _comparing_lm(candidates: Candidates) -> FloatArray:
    assert candidates.compared is not None
    return _power(candidates.compared - candidates.bits_a_token)


def _lowercase(candidates: Candidates) -> FloatArray:
    assert candidates.lowered is not None
    return _power(candidates.lowered - candidates.bits_a_token)


def _power(exponents: FloatArray) -> FloatArray:
    return np.exp2(np.clip(exponents, -_LARGEST, _LARGEST))


CONFIDENCES = {
    each.name: each
    for each in (
        Confidence("perplexity", "1 / perplexity", _perplexity),
        Confidence("comparing_lm", "perplexity under a second model / perplexity", _comparing_lm, "compared"),
        Confidence("zlib", "bytes of the text after compression with zlib / perplexity", _zlib, "zlib"),
        Confidence("lowercase", "perplexity of the lower-cased text / perplexity", _lowercase, "lowered"),
        Confidence("calibrated", "how often drawn × probability, as a share of that of all drawn", _calibrated),
    )
}
"""All confidences that need no fitting, by name."""


def available(candidates: Candidates) -> tuple[str, ...]:
    """The names of the confidences that these candidates have what it takes for."""
    kept = (each for each in CONFIDENCES.values() if each.needs is None or getattr(candidates, each.needs) is not None)
    return tuple(each.name for each in kept)


def ranked(candidates: Candidates, confidence: FloatArray) -> IntArray:
    """Indices of the candidates, surest first, shape ``[n]``.

    Of two equally sure the one with fewer bits comes first, then the one with the smaller tokens, so that nothing
    depends on the order of the draws.
    """
    return np.lexsort((*candidates.tokens.T[::-1], candidates.bits, -confidence)).astype(np.int64)


def confidence_of(candidates: Candidates, name: str, trained: TrainedConfidence | None = None) -> FloatArray:
    """Confidence ``name`` in each candidate, shape ``[n]``. Raises OptionError for one that cannot be had."""
    if name == TRAINED and trained is not None:
        return trained.confidence(candidates)
    if name not in available(candidates):
        reason = _LACKING.get(name, "is unknown")
        raise OptionError(f"confidence={name!r} {reason}: use {', '.join(available(candidates))}")
    return CONFIDENCES[name].of(candidates)


_LACKING = {
    "comparing_lm": "needs a second model to compare with",
    "lowercase": "needs texts scored in lower case",
    "zlib": "needs texts compressed",
    TRAINED: "has not been fitted on a validation split",
}


def choose(
    candidates: Candidates, truth: Sequence[int], chosen_by: str, trained: TrainedConfidence | None = None
) -> dict[str, Choice]:
    """What each available confidence makes of the draws after one prefix, by name, the trained one last.

    ``truth`` are the ``m`` tokens of the true suffix, ``chosen_by`` names the run's own confidence. Raises OptionError
    if that cannot be had, ValueError for no candidates or a truth of another length.
    """
    true = np.asarray(truth, dtype=np.int64)
    if not len(candidates.tokens) or true.shape != (candidates.length,):
        raise ValueError(f"{len(candidates.tokens)} candidates of {candidates.length} tokens, {true.size} true ones")
    headline = int(ranked(candidates, confidence_of(candidates, chosen_by, trained))[0])
    names = [*available(candidates), *([TRAINED] if trained and not trained.lacks(candidates) else [])]
    found = {name: confidence_of(candidates, name, trained) for name in names}
    return {name: _choice(candidates, true, confidence, headline) for name, confidence in found.items()}


def _choice(candidates: Candidates, true: IntArray, confidence: FloatArray, headline: int) -> Choice:
    order = ranked(candidates, confidence)
    best = int(order[0])
    wrong = candidates.tokens != true
    places = np.flatnonzero(~wrong[order].any(axis=1))
    return Choice(
        confidence=float(confidence[best]),
        of_headline=float(confidence[headline]),
        place=int(places[0]) + 1 if len(places) else None,
        wrong=float(wrong[best].mean()),
        count=int(candidates.counts[best]),
        bits=float(candidates.bits[best]),
    )


Example = tuple[Candidates, Sequence[int]]
"""The candidates after one prefix and the true suffix."""


def _zlib_a_token(candidates: Candidates) -> FloatArray:
    assert candidates.zlib is not None
    return candidates.zlib / candidates.length


FEATURES: dict[str, Callable[[Candidates], FloatArray]] = {
    "bits_a_token": attrgetter("bits_a_token"),
    "share": lambda candidates: candidates.counts / candidates.counts.sum(),
    # Unlike the confidence itself its cost keeps apart what is all but 0; the root keeps the far tail from ruling.
    "calibrated": lambda candidates: np.sqrt(calibrated_bits(candidates)),
    "zlib": _zlib_a_token,
    "lowest": attrgetter("lowest"),
    "margin": attrgetter("margin"),
    "entropy": attrgetter("entropy"),
}
"""Cost a token, share of the draws, root of the calibrated confidence's cost in bits, compressed bytes a token,
smallest probability of a token, mean margin over the next likeliest token, mean entropy in bits. The calibrated cost
alone sets a suffix against the others drawn after the same prefix."""
OPTIONAL = ("zlib", "lowest", "margin", "entropy")
"""Features that not all draws tell; they bear the names of their fields of :class:`Candidates`."""


def features(candidates: Candidates, names: Sequence[str]) -> FloatArray:
    """The named features of each candidate, shape ``[n, len(names)]``. Raises OptionError for one that is not told."""
    lacking = _lacking(candidates, names)
    if lacking:
        raise OptionError(
            f"confidence='trained' goes by {lacking[0]!r}, which is not told of all draws: fit and use it on draws of "
            "the same model"
        )
    return np.stack([FEATURES[name](candidates) for name in names], axis=1).astype(np.float64)


def _lacking(candidates: Candidates, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in OPTIONAL and getattr(candidates, name) is None)


class NothingToFit(TargetError):
    """Draws among which right and wrong suffixes cannot be told apart: all are wrong, or all right."""


@dataclass(frozen=True)
class TrainedConfidence:
    """A fitted logistic regression over standardised features.

    ``names``, ``means``, ``scales`` and ``weights`` are one a feature. ``rows`` is how many candidates it was fitted
    on, ``right`` how many of them were the true suffix.
    """

    names: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float
    rows: int
    right: int

    @classmethod
    def fit(cls, examples: Sequence[Example]) -> TrainedConfidence:
        """Fit on the distinct candidates of validation prefixes, each labelled by whether it is the true suffix.

        Features that are told of no example are left out. The order of examples and candidates changes nothing.
        Raises NothingToFit if there is nothing to tell apart, as for a model that has memorised none of the pairs.
        """
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler

        told = {name for name in OPTIONAL if any(getattr(candidates, name) is not None for candidates, _ in examples)}
        names = tuple(name for name in FEATURES if name in told or name not in OPTIONAL)
        given, labels = _rows(examples, names)
        right = int(labels.sum())
        if not 0 < right < len(labels):
            raise NothingToFit(
                f"confidence=trained cannot be fitted: {right} of {len(labels)} suffixes drawn on the validation "
                "split are the true one, some must be and some not: use more validation pairs, more samples or another "
                "confidence"
            )
        scaler = StandardScaler().fit(given)
        model = LogisticRegression(max_iter=1000).fit(scaler.transform(given), labels)
        means, scales, weights = (tuple(each.tolist()) for each in (scaler.mean_, scaler.scale_, model.coef_[0]))
        return cls(names, means, scales, weights, float(model.intercept_[0]), len(labels), right)

    def lacks(self, candidates: Candidates) -> tuple[str, ...]:
        """Names of features it goes by that these candidates do not tell."""
        return _lacking(candidates, self.names)

    def confidence(self, candidates: Candidates) -> FloatArray:
        """Probability of being the true suffix, each candidate for itself, shape ``[n]``. Raises OptionError."""
        scaled = (features(candidates, self.names) - np.array(self.means)) / np.array(self.scales)
        # Not a matrix product: that may round a row differently in other company.
        return np.asarray(expit((scaled * np.array(self.weights)).sum(axis=1) + self.intercept), dtype=np.float64)

    def to_json(self) -> str:
        """The fitted model as strict JSON, one line."""
        return json.dumps(asdict(self), allow_nan=False)


def trained_confidence_from_json(text: str) -> TrainedConfidence:
    """Inverse of :meth:`TrainedConfidence.to_json`. Raises OptionError for anything else."""
    try:
        data = parse_json(text)
        lists = {each.name: tuple(data[each.name]) for each in fields(TrainedConfidence)[:4]}
        fitted = TrainedConfidence(**{**data, **lists})
    except (ValueError, TypeError, KeyError) as error:
        raise OptionError(f"not a fitted confidence ({error}): give what its to_json wrote") from None
    unknown = [name for name in fitted.names if name not in FEATURES]
    if unknown or len({len(column) for column in lists.values()}) != 1:
        raise OptionError(f"not a fitted confidence of this version (features {fitted.names}): fit it again")
    return fitted


def _rows(examples: Sequence[Example], names: Sequence[str]) -> tuple[FloatArray, IntArray]:
    if not examples:
        raise NothingToFit(
            "confidence=trained cannot be fitted: there is no validation pair that the model can take: give some or "
            "use another confidence"
        )
    given = np.concatenate([features(candidates, names) for candidates, _ in examples])
    labels = np.concatenate([(candidates.tokens == np.asarray(truth)).all(axis=1) for candidates, truth in examples])
    # Sums, and so the fit's last digits, would depend on the order of the rows.
    order = np.lexsort((labels, *given.T))
    return given[order], labels[order].astype(np.int64)

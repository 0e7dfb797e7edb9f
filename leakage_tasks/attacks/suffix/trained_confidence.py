"""A confidence learnt from pairs whose suffixes are known: the probability that a suffix drawn is the true one.

Ethicist (Zhang et al. 2023) names it as future work in section 5. This is a logistic regression over a handful of
numbers that cost nothing beyond the draws, fitted on pairs of the validation split.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter

import numpy as np
from scipy.special import expit

from leakage_tasks.attacks.suffix.candidates import Candidates, calibrated_bits
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import OptionError, TargetError

TRAINED = "trained"
"""The name a fitted confidence goes by, beside those that need no fitting."""

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

"""A confidence learnt from pairs with known suffixes: the probability that a drawn suffix is the true suffix.

Ethicist (Zhang et al. 2023) names it as future work in section 5. This is a logistic regression over a few features of
the draws, which need no further model calls; it is fitted on pairs of the validation split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from scipy.special import expit

from leakage_tasks.attacks.suffix.candidates import Candidates, calibrated_bits
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.records import JsonRecord

TRAINED = "trained"
"""Name of the fitted confidence."""

Example = tuple[Candidates, Sequence[int]]
"""The candidates after one prefix and the true suffix."""


def _zlib_a_token(candidates: Candidates) -> FloatArray:
    assert candidates.zlib is not None
    return candidates.zlib / candidates.length


FEATURES: dict[str, Callable[[Candidates], FloatArray]] = {
    "bits_a_token": attrgetter("bits_a_token"),
    "share": lambda candidates: candidates.counts / candidates.counts.sum(),
    # The cost distinguishes confidences near 0, unlike the confidence itself; the root limits the tail's influence.
    "calibrated": lambda candidates: np.sqrt(calibrated_bits(candidates)),
    "zlib": _zlib_a_token,
    "lowest": attrgetter("lowest"),
    "margin": attrgetter("margin"),
    "entropy": attrgetter("entropy"),
}
"""Bits per token, share of the draws, root of the calibrated confidence's cost in bits, compressed bytes per token,
smallest probability of a token, mean margin over the next likeliest token, mean entropy in bits. Only the calibrated
cost compares a suffix with the other suffixes drawn after its prefix."""
OPTIONAL = ("zlib", "lowest", "margin", "entropy")
"""Features that not all models provide, by the names of their fields in :class:`Candidates`."""


def features(candidates: Candidates, names: Sequence[str]) -> FloatArray:
    """Return the named features of each candidate, ``[n, len(names)]``. Raises OptionError for a missing feature."""
    lacking = _lacking(candidates, names)
    if lacking:
        raise OptionError(
            f"confidence='trained' needs {lacking[0]!r}, which these draws do not have: fit and use it on draws of one "
            "model"
        )
    return np.stack([FEATURES[name](candidates) for name in names], axis=1).astype(np.float64)


def _lacking(candidates: Candidates, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in OPTIONAL and getattr(candidates, name) is None)


class NothingToFit(TargetError):
    """Error for a fit without two classes: all draws are wrong, or all are right."""


@dataclass(frozen=True)
class TrainedConfidence(JsonRecord):
    """A fitted logistic regression over standardised features.

    ``names``, ``means``, ``scales`` and ``weights`` have one entry per feature. ``rows`` is the number of candidates in
    the fit, and ``right`` the number of true suffixes among them.
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

        Features that no example has are left out. The order of examples and candidates has no effect. Raises
        NothingToFit if all candidates have one label, as for a model that has memorised no pair.
        """
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler

        provided = {
            name for name in OPTIONAL if any(getattr(candidates, name) is not None for candidates, _ in examples)
        }
        names = tuple(name for name in FEATURES if name in provided or name not in OPTIONAL)
        inputs, labels = _rows(examples, names)
        right = int(labels.sum())
        if not 0 < right < len(labels):
            raise NothingToFit(
                f"confidence=trained cannot be fitted: {right} of {len(labels)} suffixes drawn on the validation "
                "split are true suffixes; the fit needs true and wrong suffixes: use more validation pairs, "
                "more samples or another confidence"
            )
        scaler = StandardScaler().fit(inputs)
        model = LogisticRegression(max_iter=1000).fit(scaler.transform(inputs), labels)
        means, scales, weights = (tuple(array.tolist()) for array in (scaler.mean_, scaler.scale_, model.coef_[0]))
        return cls(names, means, scales, weights, float(model.intercept_[0]), len(labels), right)

    def lacks(self, candidates: Candidates) -> tuple[str, ...]:
        """Return the names of the features that the fit needs and these candidates do not have."""
        return _lacking(candidates, self.names)

    def confidence(self, candidates: Candidates) -> FloatArray:
        """Return each candidate's probability of being the true suffix, ``[n]``. Raises OptionError for a missing
        feature."""
        scaled = (features(candidates, self.names) - np.array(self.means)) / np.array(self.scales)
        # A matrix product may round a row differently in another batch.
        return np.asarray(expit((scaled * np.array(self.weights)).sum(axis=1) + self.intercept), dtype=np.float64)


def _rows(examples: Sequence[Example], names: Sequence[str]) -> tuple[FloatArray, IntArray]:
    if not examples:
        raise NothingToFit(
            "confidence=trained cannot be fitted: the model accepts no validation pair: give other validation pairs, "
            "or use another confidence"
        )
    inputs = np.concatenate([features(candidates, names) for candidates, _ in examples])
    labels = np.concatenate([(candidates.tokens == np.asarray(truth)).all(axis=1) for candidates, truth in examples])
    # Sort the rows, since the last digits of sums, and so of the fit, depend on their order.
    order = np.lexsort((labels, *inputs.T))
    return inputs[order], labels[order].astype(np.int64)

"""How sure an attacker is of each suffix drawn after one prefix: Ethicist's confidence and those it is compared with.

All are computed from one set of draws; the higher, the surer (Zhang et al. 2023, sections 3.3 and 4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leakage_tasks.attacks.suffix.candidates import Candidates, calibrated_bits
from leakage_tasks.attacks.suffix.finding import Choice
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import OptionError

if TYPE_CHECKING:
    from leakage_tasks.attacks.suffix.trained_confidence import TrainedConfidence

TRAINED = "trained"
"""The name a fitted confidence goes by, beside those of :data:`CONFIDENCES`."""
_LARGEST = 1000.0
"""Exponents of 2 beyond this would be infinite or 0."""


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
    return _power(-_bits_a_token(candidates))


def _comparing_lm(candidates: Candidates) -> FloatArray:
    assert candidates.compared is not None
    return _power(candidates.compared - _bits_a_token(candidates))


def _zlib(candidates: Candidates) -> FloatArray:
    assert candidates.zlib is not None
    return candidates.zlib * _perplexity(candidates)


def _lowercase(candidates: Candidates) -> FloatArray:
    assert candidates.lowered is not None
    return _power(candidates.lowered - _bits_a_token(candidates))


def _bits_a_token(candidates: Candidates) -> FloatArray:
    return candidates.bits / candidates.length


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

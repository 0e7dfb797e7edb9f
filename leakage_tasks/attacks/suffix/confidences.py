"""Confidences of an attacker in each suffix drawn after one prefix: Ethicist's confidence and its baselines.

All are computed from one set of draws; higher means more confident (Zhang et al. 2023, sections 3.3 and 4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.suffix.candidates import Candidates, calibrated_bits, power, ranked
from leakage_tasks.attacks.suffix.finding import Choice
from leakage_tasks.attacks.suffix.trained_confidence import TRAINED, TrainedConfidence
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.registry import Registry, check_callable

Measure = Callable[[Candidates], FloatArray]
FREQUENCY = "frequency"
"""The confidence that needs only draws."""
NO_COSTS = "needs log-likelihoods, which this model does not provide"
_NOT_FITTED = "has not been fitted on a validation split"


@dataclass(frozen=True)
class Confidence:
    """A confidence: ``of`` returns a finite number for each of ``n`` candidates, shape ``[n]``.

    ``needs`` is the field of :class:`Candidates` that it requires; ``lacking`` is the message if that field is None.
    """

    name: str
    words: str
    of: Measure
    needs: str | None = None
    lacking: str = ""


CONFIDENCES: Registry[Confidence] = Registry("confidence", words=True)
"""All confidences without fitting, by name."""


def register_confidence(
    name: str, words: str, *, needs: str | None = None, lacking: str = ""
) -> Callable[[Measure], Measure]:
    """Register a function of candidates as a confidence.

    Args:
        name: Name of the confidence.
        words: Description in one line.
        needs: Field of :class:`Candidates` that the function requires.
        lacking: Message if that field is None.

    Returns:
        A decorator that returns the function unchanged.

    Raises:
        PluginError: The name is taken, or the function does not take one argument.
    """

    def add(measure: Measure) -> Measure:
        check_callable(f"confidence {name!r}", measure, ["candidates"])
        CONFIDENCES.register(name, Confidence(name, words, measure, needs, lacking), measure)
        return measure

    return add


@register_confidence(
    "calibrated",
    "number of draws × probability, as a share of the sum over all drawn suffixes",
    needs="bits",
    lacking=NO_COSTS,
)
def calibrated(candidates: Candidates) -> FloatArray:
    """Return Ethicist's calibrated confidence in each candidate, shape ``[n]`` (Zhang et al. 2023, section 3.3)."""
    return np.asarray(np.exp2(-calibrated_bits(candidates)), dtype=np.float64)


@register_confidence(
    "comparing_lm",
    "perplexity under a second model / perplexity",
    needs="compared",
    lacking="needs a second model to compare with",
)
def comparing_lm(candidates: Candidates) -> FloatArray:
    """Return perplexity under a second model / perplexity of each candidate, shape ``[n]``."""
    assert candidates.compared is not None
    return power(candidates.compared - candidates.bits_a_token)


@register_confidence(FREQUENCY, "share of all draws")
def frequency(candidates: Candidates) -> FloatArray:
    """Return each candidate's share of the draws, shape ``[n]``."""
    return np.asarray(candidates.counts / candidates.counts.sum(), dtype=np.float64)


@register_confidence(
    "lowercase",
    "perplexity of the lower-cased text / perplexity",
    needs="lowered",
    lacking="needs texts scored in lower case",
)
def lowercase(candidates: Candidates) -> FloatArray:
    """Return perplexity of the lower-cased text / perplexity of each candidate, shape ``[n]``."""
    assert candidates.lowered is not None
    return power(candidates.lowered - candidates.bits_a_token)


@register_confidence("perplexity", "1 / perplexity", needs="bits", lacking=NO_COSTS)
def perplexity(candidates: Candidates) -> FloatArray:
    """Return 1 / perplexity of each candidate, shape ``[n]``."""
    return power(-candidates.bits_a_token)


@register_confidence(
    "zlib",
    "bytes of the text after compression with zlib / perplexity",
    needs="zlib",
    lacking="needs compressed texts",
)
def zlib(candidates: Candidates) -> FloatArray:
    """Return bytes of the compressed text / perplexity of each candidate, shape ``[n]``."""
    assert candidates.zlib is not None
    return candidates.zlib * power(-candidates.bits_a_token)


def available(candidates: Candidates) -> tuple[str, ...]:
    """Return the names of the confidences whose required field these candidates have."""
    return tuple(
        confidence.name
        for confidence in CONFIDENCES.values()
        if confidence.needs is None or getattr(candidates, confidence.needs) is not None
    )


def confidence_of(candidates: Candidates, name: str, trained: TrainedConfidence | None = None) -> FloatArray:
    """Return confidence ``name`` in each candidate, ``[n]``. Raises OptionError if it is not available."""
    if name == TRAINED and trained is not None:
        return trained.confidence(candidates)
    if name not in available(candidates):
        reason = CONFIDENCES[name].lacking if name in CONFIDENCES else _NOT_FITTED if name == TRAINED else "is unknown"
        raise OptionError(f"confidence={name!r} {reason}: use {', '.join(available(candidates))}")
    return CONFIDENCES[name].of(candidates)


def choose(
    candidates: Candidates, truth: Sequence[int], chosen_by: str, trained: TrainedConfidence | None = None
) -> dict[str, Choice]:
    """Return the choice of each available confidence among the draws after one prefix, by name, the trained one last.

    Args:
        candidates: The distinct draws.
        truth: The ``m`` tokens of the true suffix.
        chosen_by: Name of the run's own confidence.
        trained: A fitted confidence.

    Returns:
        Choices by the name of the confidence.

    Raises:
        OptionError: The run's own confidence is not available.
        ValueError: There are no candidates, or the truth has another length.
    """
    true = np.asarray(truth, dtype=np.int64)
    if not len(candidates.tokens) or true.shape != (candidates.length,):
        raise ValueError(f"{len(candidates.tokens)} candidates of {candidates.length} tokens, {true.size} true ones")
    headline = int(ranked(candidates, confidence_of(candidates, chosen_by, trained))[0])
    names = [*available(candidates), *([TRAINED] if trained and not trained.lacks(candidates) else [])]
    confidences = {name: confidence_of(candidates, name, trained) for name in names}
    return {name: _choice(candidates, true, confidence, headline) for name, confidence in confidences.items()}


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
        bits=None if candidates.bits is None else float(candidates.bits[best]),
    )

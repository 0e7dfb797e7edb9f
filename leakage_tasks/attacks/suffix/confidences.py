"""Confidences of an attacker in each suffix drawn after one prefix: Ethicist's confidence and its baselines.

All are computed from one set of draws; higher means more confident (Zhang et al. 2023, sections 3.3 and 4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.suffix.candidates import Candidates, ranked
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


CONFIDENCES: Registry[Confidence] = Registry("confidence", "leakage_tasks.attacks.suffix.confidence", words=True)
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

"""How sure an attacker is of each suffix drawn after one prefix: Ethicist's confidence and those it is compared with.

All are computed from one set of draws; the higher, the surer (Zhang et al. 2023, sections 3.3 and 4.2).
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
"""The one that needs nothing but draws."""
NO_COSTS = "needs log-likelihoods, which this model does not give"
_NOT_FITTED = "has not been fitted on a validation split"


@dataclass(frozen=True)
class Confidence:
    """``of`` gives the confidence in each of ``n`` candidates, finite, shape ``[n]``.

    ``needs`` is the field of :class:`Candidates` without which there is none; ``lacking`` says what that takes.
    """

    name: str
    words: str
    of: Measure
    needs: str | None = None
    lacking: str = ""


CONFIDENCES: Registry[Confidence] = Registry("confidence", "leakage_tasks.attacks.suffix.confidence", words=True)
"""All confidences that need no fitting, by name."""


def register_confidence(
    name: str, words: str, *, needs: str | None = None, lacking: str = ""
) -> Callable[[Measure], Measure]:
    """Make a function of candidates a confidence; see :class:`Confidence`. Raises PluginError for a name taken."""

    def add(measure: Measure) -> Measure:
        check_callable(f"confidence {name!r}", measure, ["candidates"])
        CONFIDENCES.register(name, Confidence(name, words, measure, needs, lacking), measure)
        return measure

    return add


def available(candidates: Candidates) -> tuple[str, ...]:
    """The names of the confidences that these candidates have what it takes for."""
    kept = (each for each in CONFIDENCES.values() if each.needs is None or getattr(candidates, each.needs) is not None)
    return tuple(each.name for each in kept)


def confidence_of(candidates: Candidates, name: str, trained: TrainedConfidence | None = None) -> FloatArray:
    """Confidence ``name`` in each candidate, shape ``[n]``. Raises OptionError for one that cannot be had."""
    if name == TRAINED and trained is not None:
        return trained.confidence(candidates)
    if name not in available(candidates):
        reason = CONFIDENCES[name].lacking if name in CONFIDENCES else _NOT_FITTED if name == TRAINED else "is unknown"
        raise OptionError(f"confidence={name!r} {reason}: use {', '.join(available(candidates))}")
    return CONFIDENCES[name].of(candidates)


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
        bits=None if candidates.bits is None else float(candidates.bits[best]),
    )

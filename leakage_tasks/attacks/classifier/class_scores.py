"""Scores for attacks on classifiers: the loss of the canary's class, optionally penalised or calibrated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.attacks.causal.search_tree import finite
from leakage_tasks.attacks.finding import Guess
from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.attacks.signal import CALIBRATED, LOSS
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.tokens.slot_tokens import SpaceRows, values_at

CHUNK = 1 << 14
TIE = 1e-5
"""Losses are equal if their probabilities of a wrong class differ by less than this share (float32 precision)."""

BEAM = Option("beam", int, 200, "number of fillings that the search keeps after each slot", minimum=1)


class Side(NamedTuple):
    """A classifier, its rows of a space, and the number of the canary's class."""

    target: Any
    rows: SpaceRows
    label: int


class ClassScores:
    """Losses of one canary's class over the fillings of its space; ``calls`` counts the rows scored.

    ``sides`` are the classifier and, for a calibrated score, the reference.

    The loss is −log2 P(label | text) in bits (Elmahdy et al., Equation 1; the loss-based membership signal of Mix and
    Match, section 4.3.2). A calibrated score is this loss minus a reference classifier's loss of the text.
    """

    def __init__(self, request: AttackRequest, signal: str = LOSS) -> None:
        self.target, self.space = request.target, request.canary.attack_space
        self.calls = 0
        self.signal = signal
        targets = [self.target, *([_reference(self.target)] if signal == CALIBRATED else [])]
        self.sides = [
            Side(target, target.rows(self.space), target.place_of(request.canary.label)) for target in targets
        ]
        _, self.rows, self.label = self.sides[0]
        self._first = np.full(len(self.space.slots[0]), np.nan)

    def of(self, values: IntArray) -> FloatArray:
        """Score texts whose first k slots hold ``values`` ``[n, k]``; returns ``[n]``, lower is likelier.

        Scores of the first slot's values are cached.
        """
        if values.shape[1] > 1:
            return self._scored(values)
        wanted = np.unique(values)
        new = wanted[np.isnan(self._first[wanted])]
        self._first[new] = self._scored(new[:, None])
        return self._first[values[:, 0]]

    def _scored(self, values: IntArray) -> FloatArray:
        self.calls += len(values)
        losses, *reference = (_losses(values, *side) for side in self.sides)
        return losses - reference[0] if reference else losses

    def places(self, fillings: Sequence[Filling]) -> IntArray:
        """Return the indices of fillings' values in the alphabets of this space, ``[n, slots]``."""
        return places_of(self.space, fillings)


def places_of(space: Space, fillings: Sequence[Filling]) -> IntArray:
    """Return the indices of fillings' values in their alphabets, ``[n, slots]``."""
    rows = [[slot.position(value) for slot, value in zip(space.slots, filling, strict=True)] for filling in fillings]
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(space.slots))


def guesses_of(space: Space, values: IntArray, losses: FloatArray) -> list[Guess]:
    """Return fillings ``[n, slots]`` as guesses, each with its loss in bits."""
    fillings = values_at(space, values)
    return [Guess(filling, space.fill(filling), float(loss)) for filling, loss in zip(fillings, losses, strict=True)]


def _losses(values: IntArray, target: Any, rows: SpaceRows, label: int) -> FloatArray:
    """Return one classifier's losses of a label in bits, ``[n]``."""
    parts = [values[first : first + CHUNK] for first in range(0, len(values), CHUNK)]
    losses = np.concatenate([np.zeros(0), *(target.label_costs(rows.of(part))[:, label] for part in parts)])
    finite(float(losses.sum()))
    return losses


def _reference(target: Any) -> Any:
    """Return the reference classifier of a target. Raises OptionError if it has no reference."""
    if not hasattr(target, "reference"):
        raise OptionError("signal=calibrated: a tagger takes no reference classifier: leave signal=… out")
    if target.reference is None:
        raise OptionError("signal=calibrated needs a reference classifier: give one with reference=… in --model_args")
    return target.reference


def within(score: float, signal: str = LOSS) -> float:
    """Return the bound up to which a score counts as at most ``score``, ties included."""
    # A probability close to 1 gives a loss close to 0, so the tolerance is relative to the loss.
    return score + TIE * (1.0 if signal == CALIBRATED else min(score, 1.0))


def every(sizes: list[int]) -> Iterator[IntArray]:
    """Yield all combinations of values' indices, last slot fastest, in chunks ``[n, slots]``."""
    total = int(np.prod(np.array(sizes, dtype=object)))
    for first in range(0, total, CHUNK):
        numbers = np.arange(first, min(first + CHUNK, total))
        yield np.stack(np.unravel_index(numbers, sizes), axis=1).astype(np.int64)


def words_only(values: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return a mask of values that pass the filters of Mix and Match (section 4.3.2).

    The filters remove continuation pieces and punctuation.
    """
    return np.array([not value.startswith("##") and any(map(str.isalnum, value)) for value in values])

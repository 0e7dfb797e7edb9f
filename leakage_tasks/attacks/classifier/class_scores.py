"""What the attacks on classifiers rank fillings by: the loss of the canary's class, penalised or calibrated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.attacks.causal.search_tree import finite
from leakage_tasks.attacks.registry import AttackOption, AttackRequest
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import OptionError, TargetError

CHUNK = 1 << 14
TIE = 1e-5
"""Two losses whose probabilities of a wrong class differ by less than this share are equal: float32 tells no more."""

LOSS, CALIBRATED = "loss", "calibrated"
SIGNAL = AttackOption(
    "signal",
    str,
    LOSS,
    "what fillings are ranked by: the class loss, or how much lower it is than a reference classifier's",
    (LOSS, CALIBRATED),
)
BEAM = AttackOption("beam", int, 200, "how many fillings are kept after each slot", least=1)


class ClassScores:
    """Losses of one canary's class over the fillings of its space; ``calls`` counts the rows scored.

    The loss is −log2 P(label | text) in bits (Elmahdy et al., Equation 1; the loss-based membership signal of Mix and
    Match, section 4.3.2). Calibrated, a reference classifier's loss of the same text is taken off.
    """

    def __init__(self, order: AttackRequest, signal: str = LOSS) -> None:
        self.target, self.space = order.target, order.canary.attack_space
        self.calls = 0
        self.signal = signal
        self._sides = [_Side(self.target, self.space, order.canary.label)]
        if signal == CALIBRATED:
            self._sides.append(_Side(_reference(self.target), self.space, order.canary.label))
        self.rows = self._sides[0].rows
        self.label = self._sides[0].label
        self._first = np.full(len(self.space.slots[0]), np.nan)

    def of(self, values: IntArray) -> FloatArray:
        """Scores of the texts whose first k slots hold ``values`` ``[n, k]``, shape ``[n]``; the lower, the likelier.

        Those of one slot are remembered and scored once.
        """
        if values.shape[1] > 1:
            return self._scored(values)
        wanted = np.unique(values)
        new = wanted[np.isnan(self._first[wanted])]
        self._first[new] = self._scored(new[:, None])
        return self._first[values[:, 0]]

    def _scored(self, values: IntArray) -> FloatArray:
        self.calls += len(values)
        own, *reference = (side.losses(values) for side in self._sides)
        return own - reference[0] if reference else own

    def places(self, fillings: Sequence[Filling]) -> IntArray:
        """The places of fillings' values in their alphabets, shape ``[n, slots]``."""
        slots = self.space.slots
        rows = [[slot.position(value) for slot, value in zip(slots, filling, strict=True)] for filling in fillings]
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(slots))


def _reference(target: Any) -> Any:
    """The classifier that a target's losses are calibrated by. Raises OptionError where there is none."""
    if not hasattr(target, "reference"):
        raise OptionError("signal=calibrated: a tagger takes no reference classifier: leave signal=… out")
    if target.reference is None:
        raise OptionError("signal=calibrated needs a reference classifier: give one with reference=… in --model_args")
    return target.reference


class _Side:
    """One classifier's losses."""

    def __init__(self, target: Any, space: Space, label: str | None) -> None:
        self.rows = target.rows(space)
        self.label = target.place_of(label)
        self._target = target

    def losses(self, values: IntArray) -> FloatArray:
        parts = [values[first : first + CHUNK] for first in range(0, len(values), CHUNK)]
        found = [self._target.label_costs(self.rows.of(part))[:, self.label] for part in parts]
        losses = np.concatenate(found) if found else np.zeros(0)
        finite(float(losses.sum()))
        return losses


def within(score: float, signal: str = LOSS) -> float:
    """The score under which a filling ties with one of ``score`` or beats it."""
    # A probability close to 1 leaves a loss close to 0, whose every digit but the last few still counts.
    return score + TIE * (1.0 if signal == CALIBRATED else min(score, 1.0))


def every(sizes: list[int]) -> Iterator[IntArray]:
    """All places of a product of alphabets, last slot fastest, in chunks ``[n, slots]``."""
    total = int(np.prod(np.array(sizes, dtype=object)))
    for first in range(0, total, CHUNK):
        numbers = np.arange(first, min(first + CHUNK, total))
        yield np.stack(np.unravel_index(numbers, sizes), axis=1).astype(np.int64)


def words_only(values: tuple[str, ...]) -> NDArray[np.bool_]:
    """Which values pass the filters of Mix and Match, section 4.3.2: no continuation pieces, no punctuation."""
    return np.array([not value.startswith("##") and any(map(str.isalnum, value)) for value in values])


def single_tokens(scores: ClassScores, slot: int) -> tuple[IntArray, int]:
    """The token of each value of a slot and the place of that token in a row. Raises TargetError if it has several."""
    tokens, column = scores.rows.single(slot), scores.rows.column(slot)
    if tokens is None or column is None:
        raise TargetError(
            "shortlist=… ranks values that are one token each, and some here are more: leave it out, or use a "
            "tokenizer's whole words"
        )
    return tokens, column

"""How far two ways of computing one cost may differ, by what the model computes in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.targets.batches import READ_IN_HALF, in_half_precision
from leakage_tasks.targets.harness.fast_path import TOLERANCE_BITS, TOLERANCE_SHARE


@dataclass(frozen=True)
class Precision:
    """Two costs of one text may differ by ``bits``, or by ``share`` of the cost where that is more."""

    bits: float
    share: float

    def allowed(self, costs: FloatArray) -> FloatArray:
        """Bits by which each of ``costs`` may be off, ``[n]``."""
        return np.maximum(self.bits, self.share * np.abs(costs))

    def ranks(self, costs: FloatArray, place: int) -> tuple[int, int]:
        """The lowest and highest rank that the filling at ``place`` may have if all ``costs`` are off so far."""
        own, slack = costs[place], 2 * self.allowed(costs)
        least = int((costs < own - slack).sum()) + 1
        return least, max(least, int((costs <= own + slack).sum()))

    def __str__(self) -> str:
        share = f" or {self.share:.0%} of the cost" if self.share else ""
        return f"{self.bits:g} bits{share}"


def precision_of(lm: Any, labelled: bool) -> Precision:
    """What a harness model's costs can be held to; one that does not tell its precision gets the coarser one."""
    model = getattr(getattr(lm, "classifier", lm), "model", None)
    known = hasattr(model, "parameters")
    if known and not in_half_precision(model, getattr(lm, "mixed_precision_dtype", None)):
        return Precision(TOLERANCE_BITS, 0.0)
    return Precision(READ_IN_HALF if labelled else TOLERANCE_BITS, TOLERANCE_SHARE)

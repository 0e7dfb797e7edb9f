"""How far two ways of computing one cost may differ, by what the model computes in, and whether they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.selftest.rows import SelfTestRow, judged
from leakage_tasks.selftest.subject import Subject
from leakage_tasks.targets.batches import READ_IN_HALF, TOLERANCE_BITS, TOLERANCE_SHARE, in_half_precision


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


def compared(
    check: str,
    subject: Subject,
    costs: FloatArray,
    everything: FloatArray,
    findings: Sequence[Sequence[Finding]],
    remedy: str,
    between: str = "",
) -> SelfTestRow:
    """The row of a check that holds the subject's known costs against ``costs``, ``between`` two ways of computing.

    Each of ``findings`` are those of all small canaries, whose ranks are to be those that the costs of ``everything``
    in the small space give.
    """
    precision, same = precision_of(subject.lm, subject.labelled), 0
    for place, *found in zip(subject.places, *findings, strict=True):
        low, high = precision.ranks(everything, place)
        same += all(low <= float(each.rank or 0) <= high for each in found)
    differences, number = np.abs(subject.known_costs - costs), len(subject.places)
    worst = float(differences.max())
    held = bool((differences <= precision.allowed(costs)).all()) and same == number
    words = (
        f"{len(costs)} costs differ by {worst:.2g} bits at most{between} (allowed: {precision}); {same} of {number} "
        f"ranks among {len(everything)} fillings are the same"
    )
    figures = {
        "texts": len(costs),
        "largest_difference": worst,
        "allowed_bits": precision.bits,
        "allowed_share": precision.share,
        "ranks": number,
        "ranks_same": same,
        "fillings": len(everything),
    }
    return judged(check, held, words, figures, remedy)

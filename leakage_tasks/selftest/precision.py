"""How far two ways of computing one cost may differ, by what the model computes in, and whether they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.selftest.rows import SelfTestRow, judged
from leakage_tasks.selftest.subject import Subject
from leakage_tasks.targets.noise import FLOOR_BITS, NO_NOISE, recorded_noise
from leakage_tasks.targets.rounding import in_half_precision

UNKNOWN_BITS, UNKNOWN_SHARE = 0.1, 0.02
"""What two costs may differ by where neither precision nor noise is seen: bits of a class loss, and a share."""


@dataclass(frozen=True)
class Precision:
    """Two costs of one text may differ by ``bits``, or by ``share`` of the cost where that is more.

    ``dtype`` is what the model computes in, empty where it is not seen; ``noise`` the rounding noise of a text in bits,
    None where it is not measured.
    """

    bits: float
    share: float = 0.0
    dtype: str = ""
    noise: float | None = None

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
        noise = "" if self.noise is None else f", whose rounding noise is {self.noise:.2g} bits a text"
        return f"{self.bits:.3g} bits{share}" + (f" in {self.dtype}{noise}" if self.dtype else "")


def precision_of(subject: Subject) -> Precision:
    """Return what a model's costs can be held to: float32's floor, or the model's own noise in 16 bits."""
    lm = subject.lm
    model = getattr(getattr(lm, "classifier", lm), "model", None)
    mixed = getattr(lm, "mixed_precision_dtype", None)
    dtype = str(mixed or getattr(model, "dtype", "")).removeprefix("torch.")
    if hasattr(model, "parameters") and not in_half_precision(model, mixed):
        return Precision(FLOOR_BITS, dtype=dtype)
    noise, canary = recorded_noise(subject.target), subject.canaries[0]
    if noise == NO_NOISE:
        return Precision(UNKNOWN_BITS if subject.labelled else FLOOR_BITS, UNKNOWN_SHARE, dtype)
    tokens = subject.view(subject.target, canary).length(canary.text)
    return Precision(noise.allowed(tokens), dtype=dtype, noise=noise.of(tokens))


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
    precision, same = precision_of(subject), 0
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
        "precision": precision.dtype,
        "noise_bits": precision.noise,
        "ranks": number,
        "ranks_same": same,
        "fillings": len(everything),
    }
    return judged(check, held, words, figures, remedy)

"""The tolerance between two computations of a cost, which depends on the model's number format, and its check."""

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
"""Tolerance for an unknown precision and noise: bits of a class loss, and a share of the cost."""


@dataclass(frozen=True)
class Precision:
    """The tolerance between two costs of a text: ``bits``, or ``share`` of the cost if that is larger.

    ``dtype`` is the model's number format, empty if unknown; ``noise`` is the rounding noise of a text in bits, None if
    it is not measured.
    """

    bits: float
    share: float = 0.0
    dtype: str = ""
    noise: float | None = None

    def allowed(self, costs: FloatArray) -> FloatArray:
        """Return the tolerance of each of ``costs`` in bits, ``[n]``."""
        return np.maximum(self.bits, self.share * np.abs(costs))

    def ranks(self, costs: FloatArray, index: int) -> tuple[int, int]:
        """Return the lowest and highest rank of the filling at ``index`` if all ``costs`` have errors within the
        tolerance."""
        cost, slack = costs[index], 2 * self.allowed(costs)
        least = int((costs < cost - slack).sum()) + 1
        return least, max(least, int((costs <= cost + slack).sum()))

    def __str__(self) -> str:
        share = f" or {100 * self.share:.0f} % of the cost" if self.share else ""
        noise = "" if self.noise is None else f", whose rounding noise is {self.noise:.2g} bits a text"
        return f"{self.bits:.3g} bits{share}" + (f" in {self.dtype}{noise}" if self.dtype else "")


def precision_of(subject: Subject) -> Precision:
    """Return the tolerance for a model's costs: the floor of float32, or the model's own noise in 16 bits."""
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
    small_costs: FloatArray,
    findings: Sequence[Sequence[Finding]],
    remedy: str,
    between: str = "",
) -> SelfTestRow:
    """Return the row of a check that compares the subject's known costs with ``costs``.

    Args:
        check: Name of the check.
        subject: The model and its canaries.
        costs: Costs of the probes, beginnings and small canaries from the other computation, in bits.
        small_costs: Costs of all fillings of the small space, in bits.
        findings: Lists of findings of all small canaries; their ranks must match the costs in ``small_costs``.
        remedy: Advice for a check that fails.
        between: Description of the two computations, for the row's text.
    """
    precision, matching = precision_of(subject), 0
    for index, *canary_findings in zip(subject.small_indices, *findings, strict=True):
        low, high = precision.ranks(small_costs, index)
        matching += all(low <= float(finding.rank or 0) <= high for finding in canary_findings)
    differences, number = np.abs(subject.known_costs - costs), len(subject.small_indices)
    worst = float(differences.max())
    held = bool((differences <= precision.allowed(costs)).all()) and matching == number
    words = (
        f"{len(costs)} costs differ by {worst:.2g} bits at most{between} (allowed: {precision}); {matching} of "
        f"{number} ranks among {len(small_costs)} fillings are equal"
    )
    figures = {
        "texts": len(costs),
        "largest_difference": worst,
        "allowed_bits": precision.bits,
        "allowed_share": precision.share,
        "precision": precision.dtype,
        "noise_bits": precision.noise,
        "ranks": number,
        "ranks_same": matching,
        "fillings": len(small_costs),
    }
    return judged(check, held, words, figures, remedy)

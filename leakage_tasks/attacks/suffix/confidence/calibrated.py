"""Ethicist's confidence: number of draws of a suffix times its probability."""

import numpy as np

from leakage_tasks.attacks.suffix.candidates import Candidates, calibrated_bits
from leakage_tasks.attacks.suffix.confidences import NO_COSTS, register_confidence
from leakage_tasks.core.arrays import FloatArray


@register_confidence(
    "calibrated",
    "number of draws × probability, as a share of the sum over all drawn suffixes",
    needs="bits",
    lacking=NO_COSTS,
)
def calibrated(candidates: Candidates) -> FloatArray:
    """Return the calibrated confidence in each candidate, shape ``[n]`` (Zhang et al. 2023, section 3.3)."""
    return np.asarray(np.exp2(-calibrated_bits(candidates)), dtype=np.float64)

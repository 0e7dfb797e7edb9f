"""A confidence from the number of draws alone, for models that only generate text."""

import numpy as np

from leakage_tasks.attacks.suffix.candidates import Candidates
from leakage_tasks.attacks.suffix.confidences import FREQUENCY, register_confidence
from leakage_tasks.core.arrays import FloatArray


@register_confidence(FREQUENCY, "share of all draws")
def frequency(candidates: Candidates) -> FloatArray:
    """Return each candidate's share of the draws, shape ``[n]``."""
    return np.asarray(candidates.counts / candidates.counts.sum(), dtype=np.float64)

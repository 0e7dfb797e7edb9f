"""How often a suffix was drawn: all that an attacker has of a model that only writes."""

import numpy as np

from leakage_tasks.attacks.suffix.candidates import Candidates
from leakage_tasks.attacks.suffix.confidences import FREQUENCY, register_confidence
from leakage_tasks.core.arrays import FloatArray


@register_confidence(FREQUENCY, "how often drawn, as a share of all draws")
def frequency(candidates: Candidates) -> FloatArray:
    """Share of the draws that each candidate was, shape ``[n]``."""
    return np.asarray(candidates.counts / candidates.counts.sum(), dtype=np.float64)

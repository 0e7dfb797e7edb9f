"""How likely the model finds a suffix."""

from leakage_tasks.attacks.suffix.candidates import Candidates, power
from leakage_tasks.attacks.suffix.confidences import register_confidence
from leakage_tasks.core.arrays import FloatArray


@register_confidence("perplexity", "1 / perplexity")
def perplexity(candidates: Candidates) -> FloatArray:
    """1 / perplexity of each candidate, shape ``[n]``."""
    return power(-candidates.bits_a_token)

"""A confidence from a suffix's perplexity under the model."""

from leakage_tasks.attacks.suffix.candidates import Candidates, power
from leakage_tasks.attacks.suffix.confidences import NO_COSTS, register_confidence
from leakage_tasks.core.arrays import FloatArray


@register_confidence("perplexity", "1 / perplexity", needs="bits", lacking=NO_COSTS)
def perplexity(candidates: Candidates) -> FloatArray:
    """Return 1 / perplexity of each candidate, shape ``[n]``."""
    return power(-candidates.bits_a_token)

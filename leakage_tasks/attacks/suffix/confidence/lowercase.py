"""A confidence that compares the perplexity of the lower-cased suffix with that of the suffix."""

from leakage_tasks.attacks.suffix.candidates import Candidates, power
from leakage_tasks.attacks.suffix.confidences import register_confidence
from leakage_tasks.core.arrays import FloatArray


@register_confidence(
    "lowercase",
    "perplexity of the lower-cased text / perplexity",
    needs="lowered",
    lacking="needs texts scored in lower case",
)
def lowercase(candidates: Candidates) -> FloatArray:
    """Return perplexity of the lower-cased text / perplexity of each candidate, shape ``[n]``."""
    assert candidates.lowered is not None
    return power(candidates.lowered - candidates.bits_a_token)

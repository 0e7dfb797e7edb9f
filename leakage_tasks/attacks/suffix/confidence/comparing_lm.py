"""A confidence that compares a suffix's perplexity under a second model with its perplexity under the target."""

from leakage_tasks.attacks.suffix.candidates import Candidates, power
from leakage_tasks.attacks.suffix.confidences import register_confidence
from leakage_tasks.core.arrays import FloatArray


@register_confidence(
    "comparing_lm",
    "perplexity under a second model / perplexity",
    needs="compared",
    lacking="needs a second model to compare with",
)
def comparing_lm(candidates: Candidates) -> FloatArray:
    """Return perplexity under a second model / perplexity of each candidate, shape ``[n]``."""
    assert candidates.compared is not None
    return power(candidates.compared - candidates.bits_a_token)

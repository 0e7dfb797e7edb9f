"""How likely the model finds a suffix, for how much there is in it."""

from leakage_tasks.attacks.suffix.candidates import Candidates, power
from leakage_tasks.attacks.suffix.confidences import register_confidence
from leakage_tasks.core.arrays import FloatArray


@register_confidence(
    "zlib",
    "bytes of the text after compression with zlib / perplexity",
    needs="zlib",
    lacking="needs texts compressed",
)
def zlib(candidates: Candidates) -> FloatArray:
    """Bytes of the compressed text / perplexity of each candidate, shape ``[n]``."""
    assert candidates.zlib is not None
    return candidates.zlib * power(-candidates.bits_a_token)

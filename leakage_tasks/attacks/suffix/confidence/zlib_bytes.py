"""A confidence from a suffix's perplexity, relative to its length after compression."""

from leakage_tasks.attacks.suffix.candidates import Candidates, power
from leakage_tasks.attacks.suffix.confidences import register_confidence
from leakage_tasks.core.arrays import FloatArray


@register_confidence(
    "zlib",
    "bytes of the text after compression with zlib / perplexity",
    needs="zlib",
    lacking="needs compressed texts",
)
def zlib(candidates: Candidates) -> FloatArray:
    """Return bytes of the compressed text / perplexity of each candidate, shape ``[n]``."""
    assert candidates.zlib is not None
    return candidates.zlib * power(-candidates.bits_a_token)

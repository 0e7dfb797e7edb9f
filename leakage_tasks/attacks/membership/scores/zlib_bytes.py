"""Attack by the loss relative to the compressed size of a text (Carlini et al. 2021)."""

import zlib

from leakage_tasks.attacks.membership.registry import register_membership
from leakage_tasks.attacks.membership.text_record import TextRecord


@register_membership("zlib", "log-likelihood per token / bytes of the text after compression with zlib")
def zlib_bytes(record: TextRecord) -> float:
    """Return nats per token and compressed byte."""
    return record.per_token / len(zlib.compress(record.text.text.encode("utf-8", "surrogatepass")))

"""Attack by the loss relative to that of the lower-cased text (Carlini et al. 2021)."""

from leakage_tasks.attacks.membership.registry import register_membership
from leakage_tasks.attacks.membership.text_record import TextRecord


@register_membership(
    "lowercase",
    "log-perplexity of the lower-cased text / log-perplexity, both per token",
    "lowercase",
    passes="one over the lower-cased text",
)
def lowercase(record: TextRecord) -> float:
    """Return the ratio of the log-perplexities per token; the highest score for a text of log-perplexity 0."""
    assert record.lowered is not None
    return record.lowered / min(record.per_token, -1e-9)

"""Attack by the loss after a context of non-members (Xie et al., "ReCaLL", 2024)."""

from leakage_tasks.attacks.membership.registry import register_membership
from leakage_tasks.attacks.membership.text_record import TextRecord


@register_membership(
    "recall",
    "log-likelihood after a context of non-members / log-likelihood",
    "context",
    passes="one over the text after the context",
)
def recall(record: TextRecord) -> float:
    """Return the ratio of the log-likelihoods; a context of non-members lowers that of a member more."""
    assert record.after_context is not None
    return record.after_context / min(record.figures.total, -1e-9)

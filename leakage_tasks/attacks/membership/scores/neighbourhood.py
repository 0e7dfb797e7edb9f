"""Attack by the loss relative to that of similar texts (Mattern et al., "Membership inference attacks against language
models via neighbourhood comparison", 2023)."""

import statistics

from leakage_tasks.attacks.membership.registry import register_membership
from leakage_tasks.attacks.membership.text_record import TextRecord


@register_membership(
    "neighbourhood",
    "log-likelihood per token minus the mean of similar texts",
    "neighbours",
    passes="one over each similar text",
)
def neighbourhood(record: TextRecord) -> float:
    """Return the difference in nats per token."""
    return record.per_token - statistics.fmean(record.neighbours)

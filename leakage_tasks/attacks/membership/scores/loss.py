"""Attack by the loss of a text (Yeom et al. 2018)."""

from leakage_tasks.attacks.membership.registry import register_membership
from leakage_tasks.attacks.membership.text_record import TextRecord


@register_membership("loss", "log-likelihood per token")
def loss(record: TextRecord) -> float:
    """Return the log-likelihood per token in nats."""
    return record.per_token

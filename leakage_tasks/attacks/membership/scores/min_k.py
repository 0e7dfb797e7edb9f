"""Attack by the least likely tokens of a text (Shi et al., "Detecting pretraining data from large language models",
2024)."""

import numpy as np

from leakage_tasks.attacks.membership.registry import register_membership
from leakage_tasks.attacks.membership.text_record import TextRecord


@register_membership("min-k", "mean log-probability of the k % least likely tokens", "tokens")
def min_k(record: TextRecord) -> float:
    """Return the mean log-probability in nats of the least likely tokens."""
    assert record.figures.log_probabilities is not None
    return float(np.sort(record.figures.log_probabilities)[: record.lowest].mean())

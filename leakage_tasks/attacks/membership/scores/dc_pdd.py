"""Attack by token probabilities calibrated with their frequencies (Zhang et al., "Pretraining data detection for large
language models: a divergence-based calibration method", 2024)."""

import numpy as np

from leakage_tasks.attacks.membership.registry import register_membership
from leakage_tasks.attacks.membership.text_record import TextRecord


@register_membership(
    "dc-pdd",
    "mean over different tokens of −probability · log frequency in a reference corpus, each at most clip",
    "tokens",
    "frequencies",
)
def dc_pdd(record: TextRecord) -> float:
    """Return the mean of −p · log f over the first occurrences of the tokens, each term at most ``clip``."""
    assert record.figures.log_probabilities is not None
    assert record.frequencies is not None
    first = np.unique(record.text.tokens, return_index=True)[1]
    terms = -np.exp(record.figures.log_probabilities[first]) * np.log(record.frequencies[first])
    return float(np.minimum(terms, record.clip).mean())

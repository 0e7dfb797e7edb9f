"""Attack by the tokens that are least likely for their position (Zhang et al., "Min-K%++", 2024)."""

import numpy as np

from leakage_tasks.attacks.membership.registry import register_membership
from leakage_tasks.attacks.membership.text_record import TextRecord

SHARP = 1e-6
"""Least standard deviation in nats; a distribution on one token has none, and that token then scores 0."""


@register_membership(
    "min-k++",
    "mean of the k % lowest log-probabilities, each normalised by mean and standard deviation over the vocabulary",
    "tokens",
    "distributions",
)
def min_k_plus_plus(record: TextRecord) -> float:
    """Return the mean of the lowest normalised log-probabilities; the moments are under the model's distribution."""
    figures = record.figures
    assert figures.log_probabilities is not None
    assert figures.means is not None
    assert figures.deviations is not None
    normal = (figures.log_probabilities - figures.means) / np.maximum(figures.deviations, SHARP)
    return float(np.sort(normal)[: record.lowest].mean())

"""Attack by the likelihood ratio to a reference model (Carlini et al. 2021; Mireshghallah et al. 2022)."""

from leakage_tasks.attacks.membership.registry import register_membership
from leakage_tasks.attacks.membership.text_record import TextRecord


@register_membership(
    "ratio",
    "log of the likelihood ratio to the reference model, per token; mean over several models",
    "reference",
    passes="one of each reference model",
)
def ratio(record: TextRecord) -> float:
    """Return the difference of the log-likelihoods in nats per token of the attacked model.

    Log-likelihoods of a whole text are comparable for models with different tokenizers.
    """
    assert record.reference is not None
    return (record.figures.total - record.reference) / len(record.text.tokens)

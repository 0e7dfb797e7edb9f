"""Membership attacks, each a function from one text's figures to a score."""

import statistics
import zlib

import numpy as np

from leakage_tasks.attacks.membership.registry import register_membership
from leakage_tasks.attacks.membership.text_record import TextRecord

SHARP = 1e-6
"""Least standard deviation in nats; a distribution on one token has none, and that token then scores 0."""


@register_membership(
    "dc-pdd",
    "mean over different tokens of −probability · log frequency in a reference corpus, each at most clip",
    "tokens",
    "frequencies",
)
def dc_pdd(record: TextRecord) -> float:
    """Return the mean of −p · log f over the first occurrences of the tokens, each term at most ``clip``.

    Zhang et al., "Pretraining data detection for large language models: a divergence-based calibration method", 2024.
    """
    assert record.figures.log_probabilities is not None
    assert record.frequencies is not None
    first = np.unique(record.text.tokens, return_index=True)[1]
    terms = -np.exp(record.figures.log_probabilities[first]) * np.log(record.frequencies[first])
    return float(np.minimum(terms, record.clip).mean())


@register_membership("loss", "log-likelihood per token")
def loss(record: TextRecord) -> float:
    """Return the log-likelihood per token in nats (Yeom et al. 2018)."""
    return record.per_token


@register_membership(
    "lowercase",
    "log-perplexity of the lower-cased text / log-perplexity, both per token",
    "lowercase",
    passes="one over the lower-cased text",
)
def lowercase(record: TextRecord) -> float:
    """Return the ratio of the log-perplexities per token (Carlini et al. 2021).

    A text of log-perplexity 0 has the highest score.
    """
    assert record.lowered is not None
    return record.lowered / min(record.per_token, -1e-9)


@register_membership("min-k", "mean log-probability of the k % least likely tokens", "tokens")
def min_k(record: TextRecord) -> float:
    """Return the mean log-probability in nats of the least likely tokens.

    Shi et al., "Detecting pretraining data from large language models", 2024.
    """
    assert record.figures.log_probabilities is not None
    return float(np.sort(record.figures.log_probabilities)[: record.lowest].mean())


@register_membership(
    "min-k++",
    "mean of the k % lowest log-probabilities, each normalised by mean and standard deviation over the vocabulary",
    "tokens",
    "distributions",
)
def min_k_plus_plus(record: TextRecord) -> float:
    """Return the mean of the lowest normalised log-probabilities; the moments are under the model's distribution.

    The least likely tokens for their position count (Zhang et al., "Min-K%++", 2024).
    """
    figures = record.figures
    assert figures.log_probabilities is not None
    assert figures.means is not None
    assert figures.deviations is not None
    normal = (figures.log_probabilities - figures.means) / np.maximum(figures.deviations, SHARP)
    return float(np.sort(normal)[: record.lowest].mean())


@register_membership(
    "neighbourhood",
    "log-likelihood per token minus the mean of similar texts",
    "neighbours",
    passes="one over each similar text",
)
def neighbourhood(record: TextRecord) -> float:
    """Return the difference in nats per token.

    Mattern et al., "Membership inference attacks against language models via neighbourhood comparison", 2023.
    """
    return record.per_token - statistics.fmean(record.neighbours)


@register_membership(
    "ratio",
    "log of the likelihood ratio to the reference model, per token; mean over several models",
    "reference",
    passes="one of each reference model",
)
def ratio(record: TextRecord) -> float:
    """Return the difference of the log-likelihoods in nats per token of the attacked model.

    Carlini et al. 2021; Mireshghallah et al. 2022. Log-likelihoods of a whole text are comparable for models with
    different tokenizers.
    """
    assert record.reference is not None
    return (record.figures.total - record.reference) / len(record.text.tokens)


@register_membership(
    "recall",
    "log-likelihood after a context of non-members / log-likelihood",
    "context",
    passes="one over the text after the context",
)
def recall(record: TextRecord) -> float:
    """Return the ratio of the log-likelihoods; a context of non-members lowers that of a member more.

    Xie et al., "ReCaLL", 2024.
    """
    assert record.after_context is not None
    return record.after_context / min(record.figures.total, -1e-9)


@register_membership("zlib", "log-likelihood per token / bytes of the text after compression with zlib")
def zlib_bytes(record: TextRecord) -> float:
    """Return nats per token and compressed byte (Carlini et al. 2021)."""
    return record.per_token / len(zlib.compress(record.text.text.encode("utf-8", "surrogatepass")))

"""A small encoder trained from scratch as a masked language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.victims.base import initialize
from leakage_tasks.training.masked_lm import MaskedRecipe, MaskedTraining, train_masked_lm
from leakage_tasks.training.rows import check_sizes

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def pretrain_masked_lm(
    texts: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    how: MaskedRecipe,
    *,
    layers: int = 2,
    hidden: int = 128,
    heads: int = 2,
) -> MaskedTraining:
    """Train a small BERT from scratch as a masked language model of ``texts``, with :func:`.train_masked_lm`.

    Its feed-forward layers have 4·``hidden`` units, as BERT's. It reads up to ``how.max_length`` tokens, at least 128.
    """
    from transformers import AutoModelForMaskedLM, BertConfig

    check_sizes(layers=layers, hidden=hidden, heads=heads)
    if hidden % heads:
        raise OptionError(f"hidden is {hidden} and heads {heads}: use a hidden size that is a multiple of heads")
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        max_position_embeddings=max(how.max_length, 128),
        # BERT's 0.02 is for 768 units. With it, a narrow encoder predicts word frequencies for many epochs.
        initializer_range=0.02 * (768 / hidden) ** 0.5,
    )
    return train_masked_lm(initialize(AutoModelForMaskedLM, config, tokenizer, how.seed), tokenizer, texts, how)

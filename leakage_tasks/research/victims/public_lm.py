"""A small GPT-2 trained from scratch to write public text, with an encoder's word pieces."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import cross_entropy

from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.victims.base import initialize
from leakage_tasks.training.learn_rows import AdamWConfig, ProgressLabels, learn_rows
from leakage_tasks.training.loop import BatchLoss
from leakage_tasks.training.rows import check_length, check_sizes, padded, select_device, token_rows
from leakage_tasks.training.saved_model import Saved
from leakage_tasks.training.text_batches import IGNORED

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

POSITIONS = 128


@dataclass(frozen=True, kw_only=True)
class WriterRecipe:
    """Size and training of a small GPT-2 by AdamW; each text is read from its beginning."""

    epochs: int
    """Epochs of training."""
    layers: int = 2
    """Number of layers."""
    hidden: int = 128
    """Units per layer."""
    heads: int = 2
    """Attention heads per layer."""
    learning_rate: float = 2e-3
    """Highest rate, reached after a sixteenth of training; then it falls linearly to 0."""
    batch_size: int = 32
    """Texts per batch."""
    max_length: int = 48
    """Maximum number of tokens of a text; longer texts are truncated."""
    seed: int = 0
    """Seed of weights, dropout and order."""


@dataclass(frozen=True)
class TrainedWriter(Saved):
    """A causal model in evaluation mode, its tokenizer, and its mean training loss in nats per token by epoch."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    losses: list[float]


def writing_tokenizer(tokenizer: Any) -> PreTrainedTokenizerFast:
    """Return a BERT tokenizer adapted to a causal model: equal tokens, texts from ``[CLS]`` to ``[SEP]``.

    Decoding keeps the space before a full stop, which BERT's decoder removes.
    """
    from tokenizers import Tokenizer, decoders
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.decoder = decoders.WordPiece(cleanup=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=tokenizer.cls_token,
        eos_token=tokenizer.sep_token,
        pad_token=tokenizer.pad_token,
        unk_token=tokenizer.unk_token,
        clean_up_tokenization_spaces=False,
        model_max_length=POSITIONS,
        model_input_names=["input_ids", "attention_mask"],
    )


def train_writer(
    texts: Sequence[str],
    tokenizer: PreTrainedTokenizerFast,
    how: WriterRecipe,
    *,
    device: str | torch.device | None = None,
) -> TrainedWriter:
    """Train a GPT-2 from scratch on ``texts`` with a tokenizer of :func:`writing_tokenizer`.

    On a CPU, equal arguments and thread counts give equal models. The caller's random state does not change. Raises
    OptionError for no text and for sizes that do not fit together.
    """
    check_sizes(epochs=how.epochs, batch_size=how.batch_size, max_length=how.max_length)
    check_length(how.max_length, POSITIONS)
    if not texts:
        raise OptionError("there is no text to train on: pass at least one")
    model, torch_device = _fresh(how, tokenizer), select_device(device)
    torch.nn.Module.to(model, torch_device)
    losses = learn_rows(
        model,
        token_rows(tokenizer, texts, how.max_length),
        partial(_loss, model, tokenizer),
        AdamWConfig(
            epochs=how.epochs,
            batch_size=how.batch_size,
            learning_rate=how.learning_rate,
            weight_decay=0.01,
            warm_up=0.06,
            seed=how.seed,
        ),
        random.Random(f"writer:{how.seed}"),
        ProgressLabels(name="learning to write", unit="token"),
        device=torch_device,
    )
    return TrainedWriter(model, tokenizer, losses)


def _fresh(how: WriterRecipe, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """Return an untrained model. Raises OptionError for sizes that do not fit together."""
    from transformers import AutoModelForCausalLM, GPT2Config

    check_sizes(layers=how.layers, hidden=how.hidden, heads=how.heads)
    if how.hidden % how.heads:
        raise OptionError(
            f"hidden is {how.hidden} and heads {how.heads}: use a hidden size that is a multiple of heads"
        )
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=POSITIONS,
        n_embd=how.hidden,
        n_layer=how.layers,
        n_head=how.heads,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        # GPT-2's 0.02 is for 768 units.
        initializer_range=0.02 * (768 / how.hidden) ** 0.5,
    )
    return initialize(AutoModelForCausalLM, config, tokenizer, how.seed)


def _loss(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, rows: Sequence[Sequence[int]]) -> BatchLoss:
    """Return the loss of every token of ``rows`` except the first: summed nats and the number of tokens."""
    batch = padded(rows, tokenizer.pad_token_id, model.device)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    targets = ids.masked_fill(mask == 0, IGNORED)[:, 1:]
    logits = model(input_ids=ids[:, :-1], attention_mask=mask[:, :-1], use_cache=False).logits
    loss = cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED, reduction="sum")
    counted = (targets != IGNORED).sum()
    return BatchLoss(loss / counted, loss.detach(), counted)

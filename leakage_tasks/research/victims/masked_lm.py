"""Training an encoder to fill masks: from scratch on a text at hand, or only the parts of it that are not frozen."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.loop import BatchLoss, ClippedSteps, TrainingLoop
from leakage_tasks.training.rows import (
    bucketed,
    check_length,
    check_sizes,
    chosen_device,
    linear_warmup_decay,
    padded,
    progress,
    seeded,
    token_rows,
)
from leakage_tasks.training.text_batches import IGNORED

if TYPE_CHECKING:
    from transformers import BertForMaskedLM, PreTrainedModel, PreTrainedTokenizerBase

MASKED, REPLACED_BY_MASK, REPLACED_AT_RANDOM = 0.15, 0.8, 0.1
"""BERT's shares: of tokens to predict; of those, shown as the mask; of those, shown as a random token."""


@dataclass(frozen=True)
class MaskedTraining:
    """A trained masked language model and its mean training loss in nats a masked token, one an epoch."""

    model: PreTrainedModel
    losses: list[float] = field(default_factory=list)


def pretrain_masked_lm(
    texts: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    *,
    layers: int = 2,
    hidden: int = 128,
    heads: int = 2,
    epochs: int = 10,
    learning_rate: float = 1e-3,
    batch_size: int = 32,
    max_length: int = 64,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> MaskedTraining:
    """A small BERT trained from scratch to fill masks in ``texts``; see :func:`train_masked_lm`.

    Its feed-forward layers are 4·``hidden`` wide, as BERT's are. It reads up to ``max_length`` tokens, 128 at least.
    """
    check_sizes(layers=layers, hidden=hidden, heads=heads)
    if hidden % heads:
        raise OptionError(f"hidden is {hidden} and heads {heads}: give a hidden size that the heads divide")
    return train_masked_lm(
        _fresh_bert(tokenizer, layers, hidden, heads, max(max_length, 128), seed),
        tokenizer,
        texts,
        epochs=epochs,
        learning_rate=learning_rate,
        batch_size=batch_size,
        max_length=max_length,
        seed=seed,
        device=device,
    )


def train_masked_lm(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    *,
    epochs: int = 1,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.01,
    batch_size: int = 32,
    max_length: int = 64,
    warm_up: float = 0.06,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> MaskedTraining:
    """Go on training ``model`` (in place) to fill masks in ``texts``, only those parameters that require a gradient.

    15 % of the tokens are predicted, masked afresh each epoch (80 % shown as the mask, 10 % as a random token, 10 %
    as they are). Modules whose parameters are all frozen stay in evaluation mode, without dropout. AdamW; the rate
    rises over the share ``warm_up`` of training and falls linearly to nothing. The model is returned in evaluation
    mode. On a CPU the same arguments and thread count give the same model; the caller's random state is left
    alone. Raises OptionError on a tokenizer without a mask token, no text, or nothing left to train.
    """
    check_sizes(epochs=epochs, batch_size=batch_size, max_length=max_length)
    check_length(max_length, getattr(model.config, "max_position_embeddings", None))
    _check(model, tokenizer, texts)
    place = chosen_device(device)
    torch.nn.Module.to(model, place)
    rows = token_rows(tokenizer, texts, max_length)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=learning_rate, weight_decay=weight_decay, fused=True)
    stream = random.Random(f"masked:{seed}")
    batches = [bucketed([len(row) for row in rows], batch_size, stream) for _ in range(epochs)]
    steps = sum(map(len, batches))

    def loss(batch: list[int]) -> BatchLoss:
        return _loss(model, tokenizer, [rows[row] for row in batch], place)

    loop = TrainingLoop(
        model=model,
        batches=lambda epoch: batches[epoch - 1],
        step=partial(ClippedSteps[list[int]](optimiser).take, loss),
        evaluate=lambda epoch, losses: float(losses.total / losses.count.clamp(min=1)),
        epochs=epochs,
        rates=linear_warmup_decay(optimiser, steps, warm_up),
        train_mode=lambda: train_unfrozen(model),
        shown=lambda loss: f"{loss:.2f} nats/mask",
    )
    with seeded(seed, place):
        losses = loop.run(progress(steps, "filling masks"))
    model.eval()
    return MaskedTraining(model, losses)


def train_unfrozen(model: torch.nn.Module) -> None:
    """Put ``model`` into training mode, but for the modules whose parameters, if any, are all frozen.

    A module without parameters (dropout) goes with the one it stands in.
    """
    model.train()
    for module in model.modules():
        parameters = list(module.parameters())
        if parameters and not any(parameter.requires_grad for parameter in parameters):
            module.eval()


def mask_tokens(
    ids: torch.Tensor, maskable: torch.Tensor, mask: int, vocabulary: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """(shown, targets), both like ``ids`` [rows, length]; targets are ``IGNORED`` where nothing is to be predicted.

    ``maskable`` says which tokens may be chosen. Random tokens come from the whole vocabulary, as BERT's do.
    """
    chosen = (torch.rand(ids.shape, device=ids.device) < MASKED) & maskable
    fate = torch.rand(ids.shape, device=ids.device)
    shown = ids.masked_fill(chosen & (fate < REPLACED_BY_MASK), mask)
    at_random = chosen & (fate >= REPLACED_BY_MASK) & (fate < REPLACED_BY_MASK + REPLACED_AT_RANDOM)
    shown = torch.where(at_random, torch.randint(vocabulary, ids.shape, device=ids.device), shown)
    return shown, ids.masked_fill(~chosen, IGNORED)


def _loss(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[Sequence[int]],
    device: torch.device,
) -> BatchLoss:
    """The loss of ``rows`` with tokens masked afresh: summed nats and how many are masked."""
    batch = padded(rows, tokenizer.pad_token_id, device)
    ids = batch["input_ids"]
    special = torch.tensor(tokenizer.all_special_ids, device=device)
    # With [PAD] among the special tokens nothing of the padding is chosen.
    shown, targets = mask_tokens(ids, ~torch.isin(ids, special), tokenizer.mask_token_id, len(tokenizer))
    chosen = targets != IGNORED
    loss = cross_entropy(_logits_at(model, chosen, shown, batch["attention_mask"]), targets[chosen], reduction="sum")
    counted = chosen.sum()
    return BatchLoss(loss / counted.clamp(min=1), loss.detach(), counted)


def _logits_at(
    model: PreTrainedModel, chosen: torch.Tensor, ids: torch.Tensor, attention_mask: torch.Tensor
) -> torch.Tensor:
    """The logits [chosen, vocabulary] at the places ``chosen`` [rows, length], in float32.

    The vocabulary is wide: projecting on it nothing but the chosen places makes a small model five times faster.
    """
    projection = model.get_output_embeddings()
    narrowed = projection and projection.register_forward_pre_hook(lambda _, inputs: (inputs[0][chosen],))
    try:
        logits = model(input_ids=ids, attention_mask=attention_mask).logits
    finally:
        if narrowed:
            narrowed.remove()
    return (logits[chosen] if logits.dim() == 3 else logits).float()


def _check(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> None:
    if tokenizer.mask_token_id is None or tokenizer.pad_token_id is None:
        raise OptionError("the tokenizer has no mask or no padding token: give one of a masked language model")
    if not texts:
        raise OptionError("there is no text to train on: give one at least")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise OptionError("every parameter of the model is frozen: leave some to be trained")


def _fresh_bert(
    tokenizer: PreTrainedTokenizerBase, layers: int, hidden: int, heads: int, positions: int, seed: int
) -> BertForMaskedLM:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        max_position_embeddings=positions,
        pad_token_id=tokenizer.pad_token_id,
        # BERT's 0.02 is for 768 units: left so, a narrow encoder stays at the words' frequencies for many epochs.
        initializer_range=0.02 * (768 / hidden) ** 0.5,
    )
    with seeded(seed, torch.device("cpu")):
        return BertForMaskedLM(config)

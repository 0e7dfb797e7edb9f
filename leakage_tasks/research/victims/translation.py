"""A small translation model: an encoder-decoder trained from scratch on pairs of sentences."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import cross_entropy

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.progress import progress
from leakage_tasks.research.victims.base import initialize
from leakage_tasks.research.victims.parallel_corpus import Pair
from leakage_tasks.research.victims.translation_tokenizer import translation_tokenizer
from leakage_tasks.training.fitting import EpochLoss, TrainedLM, to_bits
from leakage_tasks.training.loop import BatchLoss, ClippedSteps, EpochLosses, TrainingLoop
from leakage_tasks.training.rows import bucketed, check_sizes, linear_warmup_decay, padded, select_device
from leakage_tasks.training.text_batches import IGNORED

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

Row = tuple[list[int], list[int]]
"""Tokens of a source and of its target, including the ends of both sentences."""
_WARM_UP = 0.1


@dataclass(frozen=True)
class TranslationRecipe:
    """Size and training of a translation model."""

    layers: int = 2
    """Layers of the encoder, and of the decoder."""
    hidden: int = 128
    """Units per layer; its feed-forward part has twice as many."""
    heads: int = 4
    """Attention heads per layer; ``hidden`` must be a multiple of them."""
    positions: int = 128
    """Maximum number of tokens of a sentence."""
    dropout: float = 0.1
    """Dropout rate in training."""
    epochs: int = 20
    """Epochs of training."""
    batch_size: int = 32
    """Pairs per batch."""
    learning_rate: float = 2e-3
    """Highest learning rate."""

    def check(self) -> None:
        """Raise OptionError for the first invalid size."""
        check_sizes(layers=self.layers, hidden=self.hidden, heads=self.heads, positions=self.positions)
        check_sizes(epochs=self.epochs, batch_size=self.batch_size)
        if self.hidden % self.heads:
            raise OptionError(f"heads is {self.heads}: use a divisor of hidden, which is {self.hidden}")


def train_translator(
    pairs: Sequence[Pair],
    recipe: TranslationRecipe | None = None,
    *,
    validation: Sequence[Pair] = (),
    tokenizer: PreTrainedTokenizerFast | None = None,
    seed: int = 0,
) -> TrainedLM:
    """Train an encoder-decoder (``transformers``' Marian) from scratch on pairs of source and target.

    The optimizer is AdamW; the rate rises over a tenth of training, then falls linearly to 0. Losses are in bits per
    target token, including the end of the sentence. ``tokenizer`` defaults to :func:`translation_tokenizer` of the
    pairs' sentences. The decoder begins with the padding token and every target ends with ``</s>``, as ``generate``
    expects. On a CPU, equal arguments and thread counts give equal models. The caller's random state does not change.
    Raises OptionError for no pairs, a sentence longer than ``recipe.positions`` tokens, a size below 1, or heads that
    do not divide ``recipe.hidden``.
    """
    recipe = recipe or TranslationRecipe()
    recipe.check()
    check_sizes(pairs=len(pairs))
    tokenizer = tokenizer or translation_tokenizer(
        (sentence for pair in pairs for sentence in pair), max_length=recipe.positions
    )
    rows, checks = (_token_rows(part, tokenizer, recipe.positions) for part in (pairs, validation))
    steps = recipe.epochs * -(-len(rows) // recipe.batch_size)
    model = _fresh(tokenizer, recipe, seed)
    torch.nn.Module.to(model, select_device(None))
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.98), fused=True)
    stream = random.Random(f"translation:{seed}")

    def loss(batch: list[Row]) -> BatchLoss:
        summed_loss = _summed_loss(model, batch)
        return BatchLoss(summed_loss / _tokens_of(batch), summed_loss.detach(), _tokens_of(batch))

    def evaluate(epoch: int, losses: EpochLosses) -> EpochLoss:
        model.eval()
        held_out = _held_out_bits(model, checks, recipe.batch_size) if checks else None
        return EpochLoss(to_bits(float(losses.total)) / losses.count, held_out)

    losses = TrainingLoop(
        model=model,
        batches=lambda epoch: _batches(rows, recipe.batch_size, stream),
        step=partial(ClippedSteps[list[Row]](optimiser).take, loss),
        evaluate=evaluate,
        epochs=recipe.epochs,
        rates=linear_warmup_decay(optimiser, steps, _WARM_UP),
        dropout_seed=seed,
        shown=lambda sentence: f"{sentence.training:.2f} bits/token",
    ).run(progress(steps, "training"))
    return TrainedLM(model, tokenizer, losses)


@torch.no_grad()
def translate(
    model: Any, tokenizer: PreTrainedTokenizerFast, sources: Sequence[str], batch_size: int = 64
) -> list[str]:
    """Return the greedy translation of each source sentence."""
    translations: list[str] = []
    for first in range(0, len(sources), batch_size):
        batch = tokenizer(list(sources[first : first + batch_size]), padding=True, return_tensors="pt")
        most = model.config.max_position_embeddings - 1
        ids = model.generate(**batch.to(model.device), max_new_tokens=most, do_sample=False, num_beams=1)
        translations += tokenizer.batch_decode(ids, skip_special_tokens=True)
    return translations


def exact_share(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair]) -> float:
    """Return the share of ``pairs`` whose greedy translation equals the target."""
    written = translate(model, tokenizer, [source for source, _ in pairs])
    return sum(text == target for text, (_, target) in zip(written, pairs, strict=True)) / len(pairs)


def _fresh(tokenizer: PreTrainedTokenizerFast, recipe: TranslationRecipe, seed: int) -> PreTrainedModel:
    """Return an untrained model over the tokenizer's entries."""
    from transformers import AutoModelForSeq2SeqLM, MarianConfig

    sizes: dict[str, Any] = {"layers": recipe.layers, "attention_heads": recipe.heads, "ffn_dim": 2 * recipe.hidden}
    config = MarianConfig(
        **{f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in sizes.items()},
        vocab_size=len(tokenizer),
        d_model=recipe.hidden,
        max_position_embeddings=recipe.positions,
        dropout=recipe.dropout,
        # The usual 0.02 is for wide models. In a narrow model, positions would dominate words.
        init_std=recipe.hidden**-0.5,
        scale_embedding=True,
        # The default of Marian is outside a small vocabulary.
        pad_token_id=tokenizer.pad_token_id,
        forced_eos_token_id=None,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    return initialize(AutoModelForSeq2SeqLM, config, tokenizer, seed)


def _token_rows(pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerFast, positions: int) -> list[Row]:
    """Return pairs as rows. Raises OptionError for a sentence longer than ``positions`` tokens."""
    if not pairs:
        return []
    sources, targets = (tokenizer(list(side), verbose=False)["input_ids"] for side in zip(*pairs, strict=True))
    longest = max(map(len, [*sources, *targets]))
    if longest > positions:
        raise OptionError(
            f"positions is {positions}: the longest sentence has {longest} tokens; use that number or more"
        )
    return list(zip(sources, targets, strict=True))


def _batches(rows: Sequence[Row], batch_size: int, stream: random.Random) -> Iterator[list[Row]]:
    """Return each row once, in batches of similar lengths, in random order."""
    lengths = [len(source) + len(target) for source, target in rows]
    return ([rows[index] for index in batch] for batch in bucketed(lengths, batch_size, stream))


def _summed_loss(model: PreTrainedModel, batch: Sequence[Row]) -> torch.Tensor:
    """Return the loss of a batch in nats, summed over target tokens."""
    read = padded([source for source, _ in batch], model.config.pad_token_id or 0, model.device)
    targets = [target for _, target in batch]
    labels = padded(targets, IGNORED, model.device)["input_ids"]
    written = padded([[model.config.decoder_start_token_id, *target[:-1]] for target in targets], 0, model.device)
    logits = model(**read, decoder_input_ids=written["input_ids"], use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")


@torch.no_grad()
def _held_out_bits(model: PreTrainedModel, rows: Sequence[Row], batch_size: int) -> float:
    """Return the loss of rows in bits per target token."""
    parts = (rows[first : first + batch_size] for first in range(0, len(rows), batch_size))
    return to_bits(sum(float(_summed_loss(model, part)) for part in parts)) / _tokens_of(rows)


def _tokens_of(rows: Sequence[Row]) -> int:
    """Count the target tokens of rows."""
    return sum(len(target) for _, target in rows)

"""A small translation model: an encoder-decoder trained from scratch on pairs of sentences."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.victims.parallel_corpus import Pair
from leakage_tasks.research.victims.translation_rows import (
    Row,
    bits_a_token,
    encoded,
    held_out_bits,
    row_batches,
    summed_loss,
    tokens_of,
)
from leakage_tasks.research.victims.translation_tokenizer import translation_tokenizer
from leakage_tasks.training.loop import BatchLoss, ClippedSteps, EpochLosses, TrainingLoop
from leakage_tasks.training.rows import check_sizes, chosen_device, linear_warmup_decay, progress, seeded
from leakage_tasks.training.saved_model import Saved

if TYPE_CHECKING:
    from transformers import MarianMTModel, PreTrainedTokenizerFast

_WARM_UP, _CLIP = 0.1, 1.0


@dataclass(frozen=True)
class TranslationRecipe:
    """A translation model's size and how it is trained; ``layers`` are those of the encoder, and of the decoder."""

    layers: int = 2
    hidden: int = 128
    heads: int = 4
    positions: int = 128
    dropout: float = 0.1
    epochs: int = 20
    batch_size: int = 32
    learning_rate: float = 2e-3

    def check(self) -> None:
        """Raise OptionError naming the first size that cannot be."""
        check_sizes(layers=self.layers, hidden=self.hidden, heads=self.heads, positions=self.positions)
        check_sizes(epochs=self.epochs, batch_size=self.batch_size)
        if self.hidden % self.heads:
            raise OptionError(f"heads is {self.heads}: give a divisor of hidden, which is {self.hidden}")


@dataclass(frozen=True)
class TranslationLoss:
    """Mean loss of one epoch in bits a target token, the end of the sentence counted; None without such pairs."""

    training: float
    validation: float | None = None


@dataclass(frozen=True)
class TrainedTranslator(Saved):
    """A trained model (in evaluation mode) with its tokenizer and its losses, one an epoch."""

    model: MarianMTModel
    tokenizer: PreTrainedTokenizerFast
    losses: list[TranslationLoss]


OnEpoch = Callable[[int, "MarianMTModel", Sequence[TranslationLoss]], None]
"""Called after each epoch (counted from 1) with the model in evaluation mode and the losses so far."""


def train_translator(
    pairs: Sequence[Pair],
    recipe: TranslationRecipe | None = None,
    *,
    validation: Sequence[Pair] = (),
    tokenizer: PreTrainedTokenizerFast | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    on_epoch: OnEpoch | None = None,
) -> TrainedTranslator:
    """Train an encoder-decoder (``transformers``' Marian) from scratch on pairs of source and target.

    AdamW; the rate rises over a tenth of training, then falls linearly to nothing. ``tokenizer`` defaults to
    :func:`translation_tokenizer` of the pairs' sentences. The decoder begins with the padding token and every target
    ends with ``</s>``, as ``generate`` has it. On a CPU the same arguments and thread count give the same
    model; the caller's random state is left alone. Raises OptionError for no pairs, a sentence longer than
    ``recipe.positions`` tokens, a size below 1 or heads that do not divide ``recipe.hidden``.
    """
    recipe = recipe or TranslationRecipe()
    recipe.check()
    check_sizes(pairs=len(pairs))
    tokenizer = tokenizer or translation_tokenizer(
        (each for pair in pairs for each in pair), max_length=recipe.positions
    )
    rows, checks = (encoded(part, tokenizer, recipe.positions) for part in (pairs, validation))
    place = chosen_device(device)
    steps = recipe.epochs * -(-len(rows) // recipe.batch_size)
    with seeded(seed, torch.device("cpu")):
        model = fresh_translator(tokenizer, recipe)
    torch.nn.Module.to(model, place)
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.98), fused=True)
    stream = random.Random(f"translation:{seed}")

    def loss(batch: list[Row]) -> BatchLoss:
        found = summed_loss(model, batch)
        return BatchLoss(found / tokens_of(batch), found.detach(), tokens_of(batch))

    def evaluate(epoch: int, losses: EpochLosses) -> TranslationLoss:
        model.eval()
        return TranslationLoss(bits_a_token(float(losses.total), rows), held_out_bits(model, checks, recipe.batch_size))

    losses = TrainingLoop(
        model=model,
        batches=lambda epoch: row_batches(rows, recipe.batch_size, stream),
        step=partial(ClippedSteps[list[Row]](optimiser, _CLIP).take, loss),
        evaluate=evaluate,
        epochs=recipe.epochs,
        rates=linear_warmup_decay(optimiser, steps, _WARM_UP),
        dropout_seed=seed,
        shown=lambda each: f"{each.training:.2f} bits/token",
        on_epoch=on_epoch,
    ).run(progress(steps, "training"))
    return TrainedTranslator(model, tokenizer, losses)


def fresh_translator(tokenizer: PreTrainedTokenizerFast, recipe: TranslationRecipe) -> MarianMTModel:
    """An untrained model over the tokenizer's entries, from torch's random state."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=len(tokenizer),
        d_model=recipe.hidden,
        encoder_layers=recipe.layers,
        decoder_layers=recipe.layers,
        encoder_attention_heads=recipe.heads,
        decoder_attention_heads=recipe.heads,
        encoder_ffn_dim=2 * recipe.hidden,
        decoder_ffn_dim=2 * recipe.hidden,
        max_position_embeddings=recipe.positions,
        dropout=recipe.dropout,
        # The usual 0.02 is for wide models: in a narrow one, words would be lost among their positions.
        init_std=recipe.hidden**-0.5,
        scale_embedding=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        forced_eos_token_id=None,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    return MarianMTModel(config)


@torch.no_grad()
def translate(
    model: Any, tokenizer: PreTrainedTokenizerFast, sources: Sequence[str], batch_size: int = 64
) -> list[str]:
    """The greedy translation of each source sentence."""
    found: list[str] = []
    for first in range(0, len(sources), batch_size):
        batch = tokenizer(list(sources[first : first + batch_size]), padding=True, return_tensors="pt")
        most = model.config.max_position_embeddings - 1
        ids = model.generate(**batch.to(model.device), max_new_tokens=most, do_sample=False, num_beams=1)
        found += tokenizer.batch_decode(ids, skip_special_tokens=True)
    return found


def exact_share(model: MarianMTModel, tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair]) -> float:
    """The share of ``pairs`` whose greedy translation is the target, word for word."""
    written = translate(model, tokenizer, [source for source, _ in pairs])
    return sum(text == target for text, (_, target) in zip(written, pairs, strict=True)) / len(pairs)

"""Pairs of sentences as rows of tokens, and a translation model's loss on them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.victims.parallel_corpus import Pair
from leakage_tasks.training.rows import bucketed, padded
from leakage_tasks.training.text_batches import IGNORED

if TYPE_CHECKING:
    from transformers import MarianMTModel, PreTrainedTokenizerFast

Row = tuple[list[int], list[int]]
"""Tokens of a source and of its target, the ends of both sentences included."""


def encoded(pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerFast, positions: int) -> list[Row]:
    """Pairs as rows. Raises OptionError for a sentence longer than ``positions`` tokens."""
    if not pairs:
        return []
    sources, targets = (tokenizer(list(side), verbose=False)["input_ids"] for side in zip(*pairs, strict=True))
    longest = max(map(len, [*sources, *targets]))
    if longest > positions:
        raise OptionError(f"positions is {positions}: the longest sentence has {longest} tokens; give that or more")
    return list(zip(sources, targets, strict=True))


def row_batches(rows: Sequence[Row], batch_size: int, stream: random.Random) -> Iterator[list[Row]]:
    """Each row once, in batches of like length, in random order."""
    lengths = [len(source) + len(target) for source, target in rows]
    return ([rows[place] for place in batch] for batch in bucketed(lengths, batch_size, stream))


def summed_loss(model: MarianMTModel, batch: Sequence[Row]) -> torch.Tensor:
    """Loss of a batch in nats, summed over target tokens."""
    read = padded([source for source, _ in batch], model.config.pad_token_id or 0, model.device)
    targets = [target for _, target in batch]
    labels = padded(targets, IGNORED, model.device)["input_ids"]
    written = padded([[model.config.decoder_start_token_id, *target[:-1]] for target in targets], 0, model.device)
    logits = model(**read, decoder_input_ids=written["input_ids"], use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")


@torch.no_grad()
def held_out_bits(model: MarianMTModel, rows: Sequence[Row], batch_size: int) -> float | None:
    """Loss of rows in bits a target token; None for no rows."""
    if not rows:
        return None
    parts = (rows[first : first + batch_size] for first in range(0, len(rows), batch_size))
    return bits_a_token(sum(float(summed_loss(model, part)) for part in parts), rows)


def tokens_of(rows: Sequence[Row]) -> int:
    """How many target tokens rows have."""
    return sum(len(target) for _, target in rows)


def bits_a_token(nats: float, rows: Sequence[Row]) -> float:
    """Summed nats of rows as bits a target token."""
    return nats / math.log(2) / tokens_of(rows)

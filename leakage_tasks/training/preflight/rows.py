"""Rows of a trainer's training data as its model reads them, after template and collator, in order.

A row has its tokens, and the tokens that are in the loss.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, Subset
from transformers import Trainer

from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.text_batches import IGNORED

Side = Literal["", "chosen", "rejected"]
"""Answer of a pair in preference training; empty in other training."""


@dataclass(frozen=True)
class Walk:
    """An iteration over ``rows`` of a trainer's ``total`` rows; ``total`` is None for a stream."""

    data: Any
    collate: Any
    batch_size: int
    rows: int | None
    total: int | None

    def batches(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield the collated batches, each with its number of rows. A stream without ``rows`` is read to its end."""

        def collate(rows: list[Any]) -> tuple[int, Mapping[str, Any]]:
            return len(rows), self.collate(rows)

        batches = iter(DataLoader(self.data, batch_size=self.batch_size, collate_fn=collate))
        if self.total is None and self.rows is not None:
            return islice(batches, -(-self.rows // self.batch_size))
        return batches


def walk_through(trainer: Trainer, rows: int | None = None, seed: int = 0) -> Walk:
    """Return an iteration over all of a trainer's training data, or over ``rows`` rows.

    The rows are random, with ``seed``; in a stream they are the first rows. Raises OptionError if the trainer has no
    data, or if its data loader is not supported.
    """
    dataset = trainer.train_dataset
    if dataset is None or (hasattr(dataset, "__len__") and not len(dataset)):
        problem = "has no train_dataset" if dataset is None else "has an empty train_dataset"
        raise OptionError(f"preflight: the trainer {problem}: give it the training data")
    loader = trainer.get_train_dataloader()
    data, collate = getattr(loader, "dataset", None), getattr(loader, "collate_fn", None)
    if data is None or collate is None:
        raise OptionError(
            f"preflight: get_train_dataloader() returns a {type(loader).__name__} without dataset or collate_fn: "
            "return a torch DataLoader"
        )
    size = trainer.args.per_device_train_batch_size
    if isinstance(data, IterableDataset):
        return Walk(data, collate, size, rows, None)
    total = len(data)
    if rows is None or rows >= total:
        return Walk(data, collate, size, total, total)
    chosen = sorted(random.Random(f"preflight:{seed}").sample(range(total), rows))
    return Walk(Subset(data, chosen), collate, size, rows, total)


@contextmanager
def preserved_random_state() -> Iterator[None]:
    """Restore all random states after the block, so that training draws the same random numbers as without it."""
    states = random.getstate(), np.random.get_state()
    # The states of devices are restored after each probe of the model; nothing else uses them.
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


@dataclass(frozen=True)
class BatchRow:
    """One row as the model reads it, without padding.

    ``tokens`` are the ids ``[length]``. ``counted`` ``[length]`` marks the tokens in the loss. ``at`` is the row's
    index in the batch. ``pair`` is the row's answer in a preference pair.
    """

    tokens: np.ndarray
    counted: np.ndarray
    at: int
    pair: Side = ""


def rows_of(batch: Mapping[str, Any], encodes: bool) -> Iterator[BatchRow]:
    """Yield the rows of a collated batch. ``encodes`` means that the model is an encoder-decoder.

    Supports the batches of ``Trainer`` and of TRL's ``SFTTrainer`` and ``DPOTrainer``: ``labels`` with -100 for tokens
    outside the loss, or a ``completion_mask`` with the chosen answers first, then the rejected answers. Raises
    OptionError for other batches.
    """
    tokens, labels, mask = (_array(batch.get(name)) for name in ("input_ids", "labels", "attention_mask"))
    completion = _array(batch.get("completion_mask"))
    if tokens is None or tokens.ndim != 2 or (labels is None and completion is None):
        raise OptionError(
            f"preflight: the trainer's batches contain {', '.join(map(str, batch)) or 'nothing'}; supported are "
            "batches of causal and sequence-to-sequence language models (input_ids and labels) and of TRL's DPOTrainer "
            "(completion_mask): check the data collator"
        )
    read = np.ones(tokens.shape, bool) if mask is None else mask.astype(bool)
    if labels is None:
        assert completion is not None
        half = len(tokens) // 2
        for at in range(len(tokens)):
            yield _row(tokens, completion.astype(bool), read, at, "chosen" if at < half else "rejected")
        return
    if encodes:
        for at in range(len(tokens)):
            yield _row(tokens, np.zeros(tokens.shape, bool), read, at)
            target = labels[at] != IGNORED
            yield BatchRow(labels[at][target], np.ones(int(target.sum()), bool), at)
        return
    if labels.shape != tokens.shape:
        raise OptionError(
            f"preflight: labels of shape {list(labels.shape)} for tokens of shape {list(tokens.shape)} are not a "
            "language model's: only trainers of language models are supported"
        )
    counted = labels != IGNORED
    if 2 * np.count_nonzero((labels != tokens) & counted) > np.count_nonzero(counted):
        raise OptionError(
            "preflight: most labels differ from the tokens at their positions, as in the training of masked language "
            "models: only trainers of causal and sequence-to-sequence language models are supported: check the planted "
            "data with leakage verify instead"
        )
    for at in range(len(tokens)):
        yield _row(tokens, counted, read, at)


def _row(tokens: np.ndarray, counted: np.ndarray, read: np.ndarray, at: int, pair: Side = "") -> BatchRow:
    in_loss = counted[at].copy()
    # A row's first token has no context to be predicted from.
    in_loss[np.flatnonzero(read[at])[:1]] = False
    return BatchRow(tokens[at][read[at]], in_loss[read[at]], at, pair)


def _array(values: Any) -> np.ndarray | None:
    if values is None:
        return None
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


class Detokenizer:
    """Conversion of tokens to text, and of character positions in this text to token positions."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def texts(self, rows: Sequence[np.ndarray]) -> list[str]:
        """Return the text of each row, including special tokens."""
        lists = [row.tolist() for row in rows]
        options = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        return list(self._tokenizer.batch_decode(lists, **options))

    def tokens(self, row: np.ndarray, start: int, end: int) -> slice:
        """Return the tokens of ``row`` that overlap the characters ``start`` to ``end`` of its text."""
        return slice(self._tokens_for(row, start + 1) - 1, self._tokens_for(row, end))

    def _tokens_for(self, row: np.ndarray, characters: int) -> int:
        """Return the number of tokens of ``row`` that its first ``characters`` characters need."""
        low, high = 1, len(row)
        while low < high:
            middle = (low + high) // 2
            if len(self.texts([row[:middle]])[0]) >= characters:
                high = middle
            else:
                low = middle + 1
        return low

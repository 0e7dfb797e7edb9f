"""Iteration over a trainer's training data as its model will read it, after template and collator, in order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, Subset
from transformers import Trainer

from leakage_tasks.core.errors import OptionError


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

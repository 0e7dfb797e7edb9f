"""A trainer's training data as its model will read it: its own data set, template and collator, in order."""

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
    """A way through a trainer's data: ``rows`` of ``total`` rows, which is None for a stream."""

    data: Any
    collate: Any
    batch_size: int
    rows: int | None
    total: int | None

    def batches(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Its rows, collated, each batch with how many it is of; of a stream without a number of rows, all."""

        def collate(rows: list[Any]) -> tuple[int, Mapping[str, Any]]:
            return len(rows), self.collate(rows)

        batches = iter(DataLoader(self.data, batch_size=self.batch_size, collate_fn=collate))
        if self.total is None and self.rows is not None:
            return islice(batches, -(-self.rows // self.batch_size))
        return batches


def walk_through(trainer: Trainer, rows: int | None = None, seed: int = 0) -> Walk:
    """The way through all of a trainer's training data, or through ``rows`` of its rows.

    These are drawn by ``seed``; of a stream they are the first ones. Raises OptionError for a trainer without data, or
    whose loader is none that can be looked into.
    """
    given = trainer.train_dataset
    if given is None or (hasattr(given, "__len__") and not len(given)):
        what = "has no train_dataset" if given is None else "has an empty train_dataset"
        raise OptionError(f"preflight: the trainer {what}: give it the one that it is to train on")
    loader = trainer.get_train_dataloader()
    data, collate = getattr(loader, "dataset", None), getattr(loader, "collate_fn", None)
    if data is None or collate is None:
        raise OptionError(
            f"preflight: get_train_dataloader() gives a {type(loader).__name__}, which has no dataset or no collate_fn "
            "to look at: return a torch DataLoader"
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
def own_random_numbers() -> Iterator[None]:
    """Leave every random state as it was: training has to draw what it would have drawn."""
    states = random.getstate(), np.random.get_state()
    # Devices' own states are kept where a model is asked, and nowhere else is one.
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])

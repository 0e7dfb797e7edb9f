"""Ordinary training steps, with the face of DP-SGD's :class:`~leakage_tasks.training.dp.private.PrivateSteps`."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from leakage_tasks.training.dp.private import DpConfig, PrivateSteps
from leakage_tasks.training.loop import ClippedSteps
from leakage_tasks.training.rows import bucketed


def make_steps(
    model: torch.nn.Module,
    optimiser: torch.optim.Optimizer,
    private: DpConfig | None,
    lengths: Sequence[int],
    *,
    batch_size: int,
    epochs: int,
    seed: int,
    clip: float = 1.0,
) -> PlainSteps | PrivateSteps:
    """Steps on rows of these ``lengths``: DP-SGD's where it is asked for, else ordinary ones, clipped to ``clip``."""
    if private is None:
        return PlainSteps(optimiser, lengths, batch_size, clip)
    sizes = {"rows": len(lengths), "batch_size": batch_size, "epochs": epochs}
    return PrivateSteps(model.train(), optimiser, private, **sizes, seed=seed)


class PlainSteps(ClippedSteps[list[int]]):
    """Steps on batches of rows of like length, each row once an epoch; gradients are clipped."""

    def __init__(
        self, optimiser: torch.optim.Optimizer, lengths: Sequence[int], batch_size: int, clip: float = 1.0
    ) -> None:
        super().__init__(optimiser, clip)
        self._lengths, self._batch_size = lengths, batch_size
        self.steps_an_epoch = -(-len(lengths) // batch_size)

    def batches(self, stream: random.Random) -> list[list[int]]:
        """An epoch's batches of row numbers."""
        return bucketed(self._lengths, self._batch_size, stream)

    def epsilon(self) -> None:
        """Nothing is promised."""
        return None

    def promise(self) -> None:
        """Nothing is promised."""
        return None

    def close(self) -> None:
        """There is nothing to take off the model."""
        return None

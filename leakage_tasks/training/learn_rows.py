"""Training of a model on rows of tokens: AdamW, batches of rows of similar length, linear warm-up and decay."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from leakage_tasks.core.progress import progress
from leakage_tasks.training.loop import BatchLoss, ClippedSteps, TrainingLoop
from leakage_tasks.training.rows import bucketed, linear_warmup_decay, seeded

Rows = Sequence[Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class AdamWConfig:
    """Options of training with AdamW."""

    epochs: int
    """Number of epochs."""
    learning_rate: float = 1e-3
    """Peak learning rate. The rate rises linearly over the share ``warm_up`` of training, then decays linearly to 0."""
    weight_decay: float = 0.01
    """AdamW's decoupled weight decay."""
    batch_size: int = 32
    """Number of texts in a batch."""
    warm_up: float = 0.06
    """Share of training in which the learning rate rises."""
    seed: int = 0
    """Random seed. Callers may also use it for the order of texts."""


@dataclass(frozen=True, kw_only=True)
class ProgressLabels:
    """Labels of the progress bar: its name, and the unit that the loss is divided by."""

    name: str
    unit: str


def learn_rows(
    model: torch.nn.Module,
    rows: Rows,
    loss: Callable[[Rows], BatchLoss],
    config: AdamWConfig,
    stream: random.Random,
    labels: ProgressLabels,
    *,
    device: torch.device,
    train_mode: Callable[[], object] | None = None,
) -> list[float]:
    """Train the parameters of ``model`` that require a gradient, in place.

    Args:
        model: The model; it is left in evaluation mode.
        rows: Token ids of the texts.
        loss: Computes the loss of a batch of rows.
        config: Options of the training.
        stream: Random generator of the batches.
        labels: Labels of the progress bar.
        device: The model's device.
        train_mode: Puts the model into training mode; by default its ``train()``.

    Returns:
        The mean loss of each epoch.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True)
    batches = [bucketed([len(row) for row in rows], config.batch_size, stream) for _ in range(config.epochs)]
    steps = sum(map(len, batches))
    loop = TrainingLoop(
        model=model,
        batches=lambda epoch: ([rows[index] for index in batch] for batch in batches[epoch - 1]),
        step=partial(ClippedSteps[Rows](optimiser).take, loss),
        evaluate=lambda epoch, losses: float(losses.total / losses.count.clamp(min=1)),
        epochs=config.epochs,
        rates=linear_warmup_decay(optimiser, steps, config.warm_up),
        train_mode=train_mode,
        shown=lambda mean: f"{mean:.2f} nats/{labels.unit}",
    )
    with seeded(config.seed, device):
        losses = loop.run(progress(steps, labels.name))
    model.eval()
    return losses

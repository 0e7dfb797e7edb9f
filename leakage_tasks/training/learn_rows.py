"""Training a model on rows of tokens: AdamW, batches of rows of like length, a rate that rises and falls linearly."""

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
class Course:
    """How long a model learns, and how fast, by AdamW."""

    epochs: int
    """Times that each text is read."""
    learning_rate: float = 1e-3
    """What the rate rises to over the share ``warm_up`` of training; then it falls linearly to nothing."""
    weight_decay: float = 0.01
    """Decoupled, as AdamW's is."""
    batch_size: int = 32
    """In texts."""
    warm_up: float = 0.06
    """See ``learning_rate``."""
    seed: int = 0
    """Of all that is drawn; of the order of texts too, where the caller draws that from it."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a user sees of it: the name of the bar, and what a loss is counted by."""

    name: str
    unit: str


def learn_rows(
    model: torch.nn.Module,
    rows: Rows,
    loss: Callable[[Rows], BatchLoss],
    course: Course,
    order: random.Random,
    shown: Shown,
    *,
    device: torch.device,
    train_mode: Callable[[], object] | None = None,
) -> list[float]:
    """Train those parameters of ``model`` that require a gradient, in place; the mean loss of each epoch.

    ``loss`` is that of some rows, ``order`` deals them to batches. ``train_mode`` puts the model into training mode
    other than by its ``train()``. It is left in evaluation mode.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=course.learning_rate, weight_decay=course.weight_decay, fused=True)
    batches = [bucketed([len(row) for row in rows], course.batch_size, order) for _ in range(course.epochs)]
    steps = sum(map(len, batches))
    loop = TrainingLoop(
        model=model,
        batches=lambda epoch: ([rows[row] for row in batch] for batch in batches[epoch - 1]),
        step=partial(ClippedSteps[Rows](optimiser).take, loss),
        evaluate=lambda epoch, losses: float(losses.total / losses.count.clamp(min=1)),
        epochs=course.epochs,
        rates=linear_warmup_decay(optimiser, steps, course.warm_up),
        train_mode=train_mode,
        shown=lambda mean: f"{mean:.2f} nats/{shown.unit}",
    )
    with seeded(course.seed, device):
        losses = loop.run(progress(steps, shown.name))
    model.eval()
    return losses

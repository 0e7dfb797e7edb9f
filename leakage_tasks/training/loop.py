"""Training loop of all models of this project, with a record per epoch, and early stopping."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler
from tqdm import tqdm

from leakage_tasks.training.rows import seeded

B = TypeVar("B")
R = TypeVar("R")


class BatchLoss(NamedTuple):
    """The loss of a batch."""

    mean: Tensor
    """The value to minimize, with its gradient."""
    total: Any
    """The batch's contribution to the epoch's total: a number or a tensor without gradient, of any unit and shape."""
    count: Any
    """The batch's contribution to the epoch's count. The epoch's mean is its total divided by its count."""


class ClippedSteps(Generic[B]):
    """Steps of an optimizer with a single parameter group, with gradients clipped to the norm ``clip``."""

    def __init__(self, optimiser: torch.optim.Optimizer, clip: float = 1.0) -> None:
        self.optimiser, self._clip = optimiser, clip

    def take(self, loss: Callable[[B], BatchLoss], batch: B) -> BatchLoss:
        """Take one step on ``batch``. Return its loss before the step, as computed by ``loss``."""
        batch_loss = loss(batch)
        self.optimiser.zero_grad()
        batch_loss.mean.backward()
        torch.nn.utils.clip_grad_norm_(self.optimiser.param_groups[0]["params"], self._clip)
        self.optimiser.step()
        return batch_loss


@dataclass
class EpochLosses:
    """Sum of the losses of an epoch's batches."""

    total: Any = 0.0
    count: Any = 0
    last: BatchLoss = field(init=False)

    def add(self, loss: BatchLoss) -> None:
        """Add the loss of a batch."""
        self.total, self.count, self.last = self.total + loss.total, self.count + loss.count, loss


class EarlyStopping(Generic[R]):
    """Early stopping that keeps the weights of the best epoch; among equal epochs the first."""

    def __init__(
        self,
        patience: int | None,
        score: Callable[[R], Sequence[float | None]],
        weights: Callable[[], Mapping[str, Tensor]],
    ) -> None:
        """Create an object without an epoch.

        Args:
            patience: Number of epochs without improvement after which training stops; None: never stop.
            score: Returns numbers for an epoch's record, compared in order; lower is better, None and NaN are worst.
            weights: Returns the current weights.
        """
        self._patience, self._score_of, self._weights_of = patience, score, weights
        self._score: tuple[float, ...] = ()
        self.best_epoch = 0
        self.weights: dict[str, Tensor] = {}

    def update(self, epoch: int, record: R) -> bool:
        """Add the record of an epoch (from 1). Return True if training ends with it."""
        score = tuple(math.inf if value is None or math.isnan(value) else value for value in self._score_of(record))
        if not self.best_epoch or score < self._score:
            self.best_epoch, self._score = epoch, score
            self.weights = {name: value.detach().clone() for name, value in self._weights_of().items()}
        return self._patience is not None and epoch - self.best_epoch >= self._patience

    def restore(self, model: torch.nn.Module) -> int:
        """Load the best weights into ``model``. Return their epoch."""
        model.load_state_dict(self.weights)
        return self.best_epoch


@dataclass(kw_only=True)
class TrainingLoop(Generic[B, R]):
    """A training run: a model, its batches, the optimizer's step and the evaluation of an epoch."""

    model: Any
    batches: Callable[[int], Iterable[B]]
    """A function that returns the batches of an epoch (from 1), in order."""
    step: Callable[[B], BatchLoss]
    """A function that takes one step of the optimizer on a batch and returns the loss before the step."""
    evaluate: Callable[[int, EpochLosses], R]
    """A function that returns the record of an epoch. ``on_epoch`` gets the model in the mode in which this function
    leaves it."""
    epochs: int
    rates: LRScheduler | None = None
    """Schedule of the learning rate, advanced after each batch."""
    dropout_seed: int | None = None
    """Seed of each epoch's random state, together with the epoch's number; None: the random state is not set."""
    epoch_context: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Context in which an epoch's batches are read, for example with layers for DP-SGD."""
    train_mode: Callable[[], Any] | None = None
    """A function that puts the model into training mode before each epoch; by default the model's ``train``."""
    shown: Callable[[R], str] | None = None
    """A function that returns the text of a record for the progress bar."""
    running: Callable[[EpochLosses], str] | None = None
    """A function that returns the progress bar's text during an epoch. It is called only if the bar was redrawn, since
    reading a loss waits for the GPU."""
    on_epoch: Callable[[int, Any, list[R]], None] | None = None
    """A function that is called after each epoch with its number, the model and all records."""
    stop: Callable[[int, R], bool] | None = None
    """A function that returns True if training ends with this epoch; it is called before ``on_epoch``."""
    records: list[R] = field(default_factory=list)
    """One record per epoch. Initial records are from the interrupted run that is resumed."""

    def run(self, bar: tqdm[Any]) -> list[R]:
        """Train for the remaining epochs, or until ``stop``. Return the records. ``bar`` counts batches."""
        with bar:
            for epoch in range(len(self.records) + 1, self.epochs + 1):
                with ExitStack() as context:
                    if self.dropout_seed is not None:
                        seed = random.Random(f"dropout:{self.dropout_seed}:{epoch}").getrandbits(63)
                        context.enter_context(seeded(seed, self.model.device))
                    context.enter_context(self.epoch_context())
                    losses = self._read(epoch, bar)
                self.records.append(self.evaluate(epoch, losses))
                if self.shown is not None:
                    bar.set_postfix_str(self._words(epoch, self.shown(self.records[-1])), refresh=False)
                ended = self.stop is not None and self.stop(epoch, self.records[-1])
                if self.on_epoch is not None:
                    self.on_epoch(epoch, self.model, self.records)
                if ended:
                    break
        return self.records

    def _read(self, epoch: int, bar: tqdm[Any]) -> EpochLosses:
        (self.train_mode or self.model.train)()
        losses = EpochLosses()
        for batch in self.batches(epoch):
            losses.add(self.step(batch))
            if self.rates is not None:
                self.rates.step()
            if bar.update() and self.running is not None:
                bar.set_postfix_str(self._words(epoch, self.running(losses)), refresh=False)
        return losses

    def _words(self, epoch: int, words: str) -> str:
        return f"epoch {epoch}/{self.epochs}, {words}"

"""The loop in which every model here is trained: epochs of batches, a step a batch, a record an epoch; what ends it."""

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
    """What the step lowers, with its gradient."""
    total: Any
    """What it adds to the epoch's total: a number or a tensor without gradient, of any unit and shape."""
    count: Any
    """What it adds to the epoch's count, by which a total becomes a mean."""


class ClippedSteps(Generic[B]):
    """Steps of an optimizer of one group of parameters, gradients clipped to the norm ``clip``."""

    def __init__(self, optimiser: torch.optim.Optimizer, clip: float = 1.0) -> None:
        self.optimiser, self._clip = optimiser, clip

    def take(self, loss: Callable[[B], BatchLoss], batch: B) -> BatchLoss:
        """One step on ``batch``, of which ``loss`` gives the loss."""
        found = loss(batch)
        self.optimiser.zero_grad()
        found.mean.backward()
        torch.nn.utils.clip_grad_norm_(self.optimiser.param_groups[0]["params"], self._clip)
        self.optimiser.step()
        return found


@dataclass
class EpochLosses:
    """Losses of an epoch's batches, added up in order."""

    total: Any = 0.0
    count: Any = 0
    last: BatchLoss = field(init=False)

    def add(self, found: BatchLoss) -> None:
        """Count a batch in."""
        self.total, self.count, self.last = self.total + found.total, self.count + found.count, found


class EarlyStopping(Generic[R]):
    """Keeps the weights of the best epoch (of equal ones the first), and tells when ``patience`` has brought none."""

    def __init__(
        self,
        patience: int | None,
        score: Callable[[R], Sequence[float | None]],
        weights: Callable[[], Mapping[str, Tensor]],
    ) -> None:
        """``score`` is what an epoch's record is judged by: lower is better.

        Further numbers of it decide where the first are equal; what is missing or no number is worst. ``weights`` gives
        those of now. Without ``patience`` no epoch is the last.
        """
        self._patience, self._score_of, self._weights_of = patience, score, weights
        self._score: tuple[float, ...] = ()
        self.best_epoch = 0
        self.weights: dict[str, Tensor] = {}

    def update(self, epoch: int, record: R) -> bool:
        """Note an epoch (from 1); whether training ends with it."""
        score = tuple(math.inf if each is None or math.isnan(each) else each for each in self._score_of(record))
        if not self.best_epoch or score < self._score:
            self.best_epoch, self._score = epoch, score
            self.weights = {name: value.detach().clone() for name, value in self._weights_of().items()}
        return self._patience is not None and epoch - self.best_epoch >= self._patience

    def restore(self, model: torch.nn.Module) -> int:
        """Give ``model`` the best weights; the epoch they are of."""
        model.load_state_dict(self.weights)
        return self.best_epoch


@dataclass(kw_only=True)
class TrainingLoop(Generic[B, R]):
    """What :meth:`run` goes about: a model, its batches and their loss, and what is made of an epoch."""

    model: Any
    batches: Callable[[int], Iterable[B]]
    """The batches of an epoch (from 1), in the order they are read in."""
    step: Callable[[B], BatchLoss]
    """One step of the optimizer on a batch, which gives the loss before it."""
    evaluate: Callable[[int, EpochLosses], R]
    """An epoch's record; it leaves the model in the mode in which ``on_epoch`` is to meet it."""
    epochs: int
    rates: LRScheduler | None = None
    """The learning rate's course, a step a batch."""
    dropout_seed: int | None = None
    """Each epoch's random state is made of it, whatever came before; None: the caller sees to it."""
    reading: Callable[[], AbstractContextManager[Any]] = nullcontext
    """What an epoch's batches are read in: layers for DP-SGD, say."""
    train_mode: Callable[[], Any] | None = None
    """Puts the model into training mode before each epoch (default: its ``train``)."""
    shown: Callable[[R], str] | None = None
    """A record's words for the bar."""
    running: Callable[[EpochLosses], str] | None = None
    """The words while an epoch runs, asked for only when the bar was drawn: reading a number off a GPU waits for it."""
    on_epoch: Callable[[int, Any, list[R]], None] | None = None
    """Called after each epoch with its number, the model and the records so far."""
    stop: Callable[[int, R], bool] | None = None
    """Whether training ends with this epoch; asked before ``on_epoch``."""
    records: list[R] = field(default_factory=list)
    """One an epoch; what is there at the start are those of a run that is gone on with."""

    def run(self, bar: tqdm[Any]) -> list[R]:
        """Train for the epochs that are left, or until ``stop``; returns the records. ``bar`` counts batches."""
        with bar:
            for epoch in range(len(self.records) + 1, self.epochs + 1):
                with ExitStack() as inside:
                    if self.dropout_seed is not None:
                        drawn = random.Random(f"dropout:{self.dropout_seed}:{epoch}").getrandbits(63)
                        inside.enter_context(seeded(drawn, self.model.device))
                    inside.enter_context(self.reading())
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

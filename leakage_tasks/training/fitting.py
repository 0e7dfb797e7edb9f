"""Training of a language model on batches of a text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import cross_entropy

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.progress import progress
from leakage_tasks.training.loop import BatchLoss, ClippedSteps, EarlyStopping, EpochLosses, TrainingLoop
from leakage_tasks.training.optimizers import schedule
from leakage_tasks.training.saved_model import Saved
from leakage_tasks.training.text_batches import IGNORED, Batch, Batches

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

    from leakage_tasks.models.states import State


@dataclass(frozen=True)
class EpochLoss:
    """Mean loss of one epoch in bits per character; ``validation`` is None without a validation text.

    ``epsilon`` is DP-SGD's ε for one row after this epoch; None in ordinary training.
    """

    training: float
    validation: float | None = None
    epsilon: float | None = None


@dataclass(frozen=True)
class TrainedLM(Saved):
    """A trained model with its tokenizer and one loss per epoch.

    With early stopping ``best`` is the epoch (from 1) of the model's weights; otherwise it is None, and the weights are
    from the last epoch.
    """

    model: Any
    tokenizer: PreTrainedTokenizerFast
    losses: list[EpochLoss] = field(default_factory=list)
    best: int | None = field(default=None, kw_only=True)


OnEpoch = Callable[[int, Any, Sequence[EpochLoss]], None]
"""A function that is called after each epoch (counted from 1) with the model in evaluation mode and the losses so
far."""


@dataclass(frozen=True)
class TrainingConfig:
    """Options of :func:`fit`.

    The learning rate is constant for the share ``decay_from`` of training, then decays linearly to 0. Gradients are
    clipped to the norm ``clip``. Training stops after ``patience`` epochs without a lower validation loss. ``autocast``
    is the dtype of computations; weights keep their dtype. ``seed`` is the random seed of dropout.
    """

    epochs: int
    clip: float = 1.0
    decay_from: float = 1.0
    patience: int | None = None
    autocast: torch.dtype | None = None
    seed: int = 0
    show_progress: bool = True


def fit(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    batches: Batches,
    optimiser: torch.optim.Optimizer,
    config: TrainingConfig,
    *,
    validation_batches: Batches | None = None,
    on_epoch: OnEpoch | None = None,
) -> TrainedLM:
    """Train ``model`` in place.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        batches: The training text.
        optimiser: The optimizer of its parameters.
        config: Options of the training.
        validation_batches: The validation text.
        on_epoch: Called after each epoch.

    Returns:
        The model, its tokenizer and its losses.

    Raises:
        OptionError: ``config.patience`` is set without a validation text.
    """
    if config.patience is not None and validation_batches is None:
        raise OptionError("patience needs the validation loss: give a validation text too")
    stopping = None
    if config.patience is not None:
        stopping = EarlyStopping[EpochLoss](config.patience, lambda loss: (loss.validation,), model.state_dict)
    reader = _TextReader(model, batches, config)

    def evaluate(epoch: int, losses: EpochLosses) -> EpochLoss:
        copy_line_break_embedding(model, tokenizer)
        model.eval()
        validation = None if validation_batches is None else bits(model, validation_batches, config)
        return EpochLoss(to_bits(float(losses.total) / int(losses.count)), validation)

    losses = TrainingLoop(
        model=model,
        batches=reader.epoch,
        step=partial(ClippedSteps[Batch](optimiser, config.clip).take, reader.loss),
        evaluate=evaluate,
        epochs=config.epochs,
        rates=schedule(optimiser, config.epochs * len(batches), config.decay_from),
        dropout_seed=config.seed,
        running=lambda so_far: f"{to_bits(float(so_far.last.mean.detach())):.2f} bits/character",
        on_epoch=on_epoch,
        stop=None if stopping is None else stopping.update,
    ).run(progress(config.epochs * len(batches), "training", shown=config.show_progress))
    return TrainedLM(model, tokenizer, losses, best=None if stopping is None else stopping.restore(model))


class _TextReader:
    """Batches of a text and their loss. The recurrent state is carried between batches if they are consecutive."""

    def __init__(self, model: PreTrainedModel, batches: Batches, config: TrainingConfig) -> None:
        self._model, self._batches, self._config = model, batches, config
        self._state: State | None = None

    def epoch(self, number: int) -> Iterator[Batch]:
        """Return the batches of an epoch, and reset the state."""
        self._state = None
        return self._batches.epoch(number)

    def loss(self, batch: Batch) -> BatchLoss:
        """Compute a batch's loss: the sum in nats and the number of targets."""
        (inputs, targets), kind = batch, self._config.autocast
        with torch.autocast(self._model.device.type, dtype=kind, enabled=kind is not None):
            if self._batches.carried:
                output = self._model(inputs, past_key_values=self._state, use_cache=True)
                # Gradients do not flow into the previous batch.
                self._state = tuple(part.detach() for part in output.past_key_values)
            else:
                output = self._model(inputs, use_cache=False)
            logits = output.logits.flatten(0, 1).float()
            loss = cross_entropy(logits, targets.flatten(), ignore_index=IGNORED, reduction="sum")
        counted = (targets != IGNORED).sum()
        return BatchLoss(loss / counted, loss.detach(), counted)


def copy_line_break_embedding(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Copy the embedding of the line break to ``<s>``, if the vocabulary has a line break.

    The harness puts ``<s>`` before every scored text, but training texts do not contain it, so its embedding is
    untrained. In training every line follows a line break; with its embedding ``<s>`` also means that a line starts.
    """
    start, line_break = tokenizer.bos_token_id, tokenizer.get_vocab().get("\n")
    if line_break is None:
        return
    weight: Any = model.get_input_embeddings().weight
    with torch.no_grad():
        weight[start] = weight[line_break]


@torch.no_grad()
def bits(model: PreTrainedModel, batches: Batches, config: TrainingConfig | None = None) -> float:
    """Return the mean loss of ``batches``, read in order, in bits per character. ``config`` sets the precision."""
    reader, losses = _TextReader(model, batches, config or TrainingConfig(1)), EpochLosses()
    for batch in reader.epoch(0):
        losses.add(reader.loss(batch))
    return to_bits(float(losses.total) / int(losses.count))


def to_bits(nats: float) -> float:
    """Convert nats to bits."""
    return nats / math.log(2)

"""Training a language model on batches of a text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import cross_entropy

from leakage_tasks.core.atomic import check_place
from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.progress import progress
from leakage_tasks.training.loop import BatchLoss, ClippedSteps, EarlyStopping, EpochLosses, TrainingLoop
from leakage_tasks.training.optimizers import schedule
from leakage_tasks.training.saved_model import Saved, save
from leakage_tasks.training.text_batches import IGNORED, Batch, Batches

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

    from leakage_tasks.models.stateful import State


@dataclass(frozen=True)
class EpochLoss:
    """Mean loss of one epoch in bits a character; ``validation`` is None without a validation text.

    ``epsilon`` is what DP-SGD has spent so far, for one row; None in ordinary training.
    """

    training: float
    validation: float | None = None
    epsilon: float | None = None


@dataclass(frozen=True)
class TrainedLM(Saved):
    """A trained model with its tokenizer and its losses, one an epoch.

    ``best`` is the epoch (from 1) whose weights early stopping kept; None without early stopping: the last one's.
    """

    model: Any
    tokenizer: PreTrainedTokenizerFast
    losses: list[EpochLoss] = field(default_factory=list)
    best: int | None = field(default=None, kw_only=True)


OnEpoch = Callable[[int, Any, Sequence[EpochLoss]], None]
"""Called after each epoch (counted from 1) with the model in evaluation mode and the losses so far."""


@dataclass(frozen=True)
class TrainingConfig:
    """How :func:`fit` goes about it.

    The learning rate is constant up to the share ``decay_from`` of training, then falls linearly to nothing;
    gradients are clipped to the norm ``clip``. With ``patience`` training ends once the validation loss has not
    fallen for so many epochs. ``autocast`` computes in that type, weights stay as they are. ``seed`` is dropout's.
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
    how: TrainingConfig,
    *,
    checks: Batches | None = None,
    checkpoints: str | Path | None = None,
    on_epoch: OnEpoch | None = None,
) -> TrainedLM:
    """Train ``model`` on ``batches``; ``checks`` are the validation text's.

    Each epoch's model and tokenizer are saved in ``checkpoints`` as ``epoch-01`` and so on, in place of older ones of
    that name. Raises LeakageError where they cannot be, OptionError on ``how.patience`` without ``checks``.
    """
    if how.patience is not None and checks is None:
        raise OptionError("patience stops by the validation loss: give a validation text too")
    folder = None if checkpoints is None else _checkpoints(Path(checkpoints))
    stopping = None
    if how.patience is not None:
        stopping = EarlyStopping[EpochLoss](how.patience, lambda each: (each.validation,), model.state_dict)
    reader = _TextReader(model, batches, how)

    def evaluate(epoch: int, losses: EpochLosses) -> EpochLoss:
        start_lines_like_breaks(model, tokenizer)
        model.eval()
        found = None if checks is None else bits(model, checks, how)
        if folder is not None:
            save(model, tokenizer, folder / f"epoch-{epoch:02d}")
        return EpochLoss(to_bits(float(losses.total) / int(losses.count)), found)

    losses = TrainingLoop(
        model=model,
        batches=reader.epoch,
        step=partial(ClippedSteps[Batch](optimiser, how.clip).take, reader.loss),
        evaluate=evaluate,
        epochs=how.epochs,
        rates=schedule(optimiser, how.epochs * len(batches), how.decay_from),
        dropout_seed=how.seed,
        running=lambda so_far: f"{to_bits(float(so_far.last.mean.detach())):.2f} bits/character",
        on_epoch=on_epoch,
        stop=None if stopping is None else stopping.update,
    ).run(progress(how.epochs * len(batches), "training", shown=how.show_progress))
    return TrainedLM(model, tokenizer, losses, best=None if stopping is None else stopping.restore(model))


def _checkpoints(folder: Path) -> Path:
    """Make the folder of checkpoints if it is not there. Raises LeakageError where it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror
        raise LeakageError(f"{folder}: cannot be made ({reason}): give another folder for checkpoints") from None
    check_place(folder / "epoch-01")
    return folder


class _TextReader:
    """Batches of a text and their loss, the state carried from one to the next where they go on."""

    def __init__(self, model: PreTrainedModel, batches: Batches, how: TrainingConfig) -> None:
        self._model, self._batches, self._how = model, batches, how
        self._state: State | None = None

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of an epoch, which begins without a state."""
        self._state = None
        return self._batches.epoch(number)

    def loss(self, batch: Batch) -> BatchLoss:
        """A batch's loss: summed nats and how many targets count."""
        (inputs, targets), kind = batch, self._how.autocast
        with torch.autocast(self._model.device.type, dtype=kind, enabled=kind is not None):
            if self._batches.carried:
                output = self._model(inputs, past_key_values=self._state, use_cache=True)
                # Cut off from the gradient.
                self._state = tuple(part.detach() for part in output.past_key_values)
            else:
                output = self._model(inputs, use_cache=False)
            logits = output.logits.flatten(0, 1).float()
            loss = cross_entropy(logits, targets.flatten(), ignore_index=IGNORED, reduction="sum")
        counted = (targets != IGNORED).sum()
        return BatchLoss(loss / counted, loss.detach(), counted)


def start_lines_like_breaks(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Give ``<s>`` the embedding of the line break.

    The harness puts the start token before every text it scores, but none occurs in a training text, so
    its embedding would stay as it was drawn. Every line the model learnt from followed a line break; with
    its embedding, ``<s>`` means "a line starts here". Without a line break in the vocabulary nothing is done.
    """
    start, line_break = tokenizer.bos_token_id, tokenizer.get_vocab().get("\n")
    if line_break is None:
        return
    weight: Any = model.get_input_embeddings().weight
    with torch.no_grad():
        weight[start] = weight[line_break]


@torch.no_grad()
def bits(model: PreTrainedModel, batches: Batches, how: TrainingConfig | None = None) -> float:
    """Mean loss of ``batches`` read in order, in bits a character, in the precision ``how`` asks for."""
    reader, losses = _TextReader(model, batches, how or TrainingConfig(1)), EpochLosses()
    for batch in reader.epoch(0):
        losses.add(reader.loss(batch))
    return to_bits(float(losses.total) / int(losses.count))


def to_bits(nats: float) -> float:
    """Nats in bits."""
    return nats / math.log(2)

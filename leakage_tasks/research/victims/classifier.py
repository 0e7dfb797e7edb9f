"""Fine-tuning of text classifiers from any encoder, with early stopping and optional DP-SGD, and their accuracy."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch.nn.functional import cross_entropy

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.progress import progress
from leakage_tasks.research.victims.base import load_base
from leakage_tasks.research.victims.docstrings import Row
from leakage_tasks.training.dp.private import DpConfig, make_steps
from leakage_tasks.training.loop import BatchLoss, EarlyStopping, EpochLosses, TrainingLoop
from leakage_tasks.training.rows import (
    check_length,
    check_sizes,
    linear_warmup_decay,
    padded,
    seeded,
    select_device,
    token_rows,
)
from leakage_tasks.training.saved_model import Saved

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True)
class EpochScores:
    """Scores of one epoch: losses in nats per row, accuracy on validation rows, ε spent so far (None without DP-SGD).

    ``training`` is the mean over the epoch's steps. Without validation rows the validation scores are None.
    """

    training: float
    validation: float | None = None
    accuracy: float | None = None
    epsilon: float | None = None


@dataclass(frozen=True)
class TrainedClassifier(Saved):
    """The best snapshot in evaluation mode (from ``best_epoch``, counted from 1), its tokenizer, and the scores by
    epoch.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    history: list[EpochScores]
    best_epoch: int


_WEIGHT_DECAY, _WARM_UP = 0.01, 0.1
_SCORES: Mapping[str, Callable[[EpochScores], tuple[float | None, ...]]] = {
    "accuracy": lambda scores: (-(scores.accuracy or 0.0), scores.validation),
    "loss": lambda scores: (scores.validation,),
}


def fine_tune(
    base: str | Path | PreTrainedModel,
    rows: Sequence[Row],
    validation: Sequence[Row] = (),
    *,
    labels: Sequence[str] | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    epochs: int = 10,
    learning_rate: float = 2e-5,
    batch_size: int = 32,
    keep: Literal["accuracy", "loss", "last"] = "accuracy",
    max_length: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    private: DpConfig | None = None,
) -> TrainedClassifier:
    """Fine-tune ``base`` (a folder, a hub name or a model, which is not changed) to predict the labels of ``rows``.

    The optimizer is AdamW as in Elmahdy et al. On a CPU, equal arguments and thread counts give equal models. The
    caller's random state does not change.

    Args:
        base: the encoder to start from.
        rows: training rows.
        validation: validation rows; they are outside the guarantee of DP-SGD.
        labels: the classes in the order of the model's config (default: alphabetical).
        tokenizer: required if ``base`` is a model.
        epochs: number of epochs.
        learning_rate: highest rate; it rises in the first tenth of training, then falls linearly to 0.
        batch_size: rows per step.
        keep: the snapshot to return: best validation ``accuracy`` (lower loss if equal), lowest ``loss``, or
            ``last``.
        max_length: texts are truncated to this number of tokens.
        seed: random seed of the head, the order of rows and dropout.
        device: device of the model; by default a GPU if there is one.
        private: options of DP-SGD; None for ordinary training.

    Raises:
        OptionError: an option is invalid, or a label is not among ``labels``.
        LeakageError: ``base`` cannot be loaded or trained.
    """
    check_sizes(epochs=epochs, batch_size=batch_size, max_length=max_length)
    if keep not in ("accuracy", "loss", "last"):
        raise OptionError(f"keep is {keep!r}: use 'accuracy', 'loss' or 'last'")
    names = _label_names(rows, validation, labels)
    torch_device = select_device(device)
    with seeded(seed, torch_device):
        model, tokenizer = load_base(base, names, tokenizer)
        check_length(max_length, getattr(model.config, "max_position_embeddings", None))
        torch.nn.Module.to(model, torch_device)
        training, checks = (
            _LabelledRows(tokenizer, part, names, max_length, torch_device) for part in (rows, validation)
        )
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimiser = torch.optim.AdamW(trained, lr=learning_rate, weight_decay=_WEIGHT_DECAY, fused=True)
        sizes = {"batch_size": batch_size, "epochs": epochs, "seed": seed}
        steps = make_steps(model, optimiser, private, training.lengths, **sizes)
        planned, stream = epochs * steps.steps_an_epoch, random.Random(f"rows:{seed}")
        best = EarlyStopping(None, _SCORES[keep], model.state_dict) if validation and keep != "last" else None

        def loss(batch: list[int]) -> BatchLoss:
            inputs, numbers = training.batch(batch)
            batch_loss = cross_entropy(model(**inputs).logits.float(), numbers)
            return BatchLoss(batch_loss, float(batch_loss.detach()) * len(batch), len(batch))

        def evaluate(epoch: int, losses: EpochLosses) -> EpochScores:
            model.eval()
            mean_loss, accurate = _scores(model, checks) if validation else (None, None)
            return EpochScores(losses.total / max(losses.count, 1), mean_loss, accurate, steps.epsilon())

        loop = TrainingLoop(
            model=model,
            batches=lambda epoch: steps.batches(stream),
            step=partial(steps.take, loss),
            evaluate=evaluate,
            epochs=epochs,
            rates=linear_warmup_decay(optimiser, planned, _WARM_UP),
            shown=lambda scores: f"{scores.training:.2f} nats/row",
            stop=None if best is None else best.update,
        )
        try:
            history = loop.run(progress(planned, "fine-tuning"))
        finally:
            steps.close()
    return TrainedClassifier(model, tokenizer, history, len(history) if best is None else best.restore(model))


def _label_names(rows: Sequence[Row], validation: Sequence[Row], labels: Sequence[str] | None) -> tuple[str, ...]:
    if not rows:
        raise OptionError("there are no rows to train on: pass at least one row per label")
    names = tuple(labels) if labels is not None else tuple(sorted({label for _, label in rows}))
    if len(names) < 2 or len(set(names)) < len(names):
        raise OptionError(
            f"there are {len(names)} labels, {len(set(names))} of them different: pass two or more different labels"
        )
    return names


def accuracy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[Row],
    *,
    max_length: int = 128,
    batch_size: int = 128,
) -> float:
    """Return the share of ``rows`` whose label ``model`` predicts.

    Raises OptionError for no rows or an unknown label.
    """
    if not rows:
        raise OptionError("there are no rows to measure accuracy on: pass at least one")
    named = {int(number): label for number, label in (model.config.id2label or {}).items()}
    names = [named[number] for number in sorted(named)]
    labelled = _LabelledRows(tokenizer, rows, names, max_length, model.device)
    was_training = model.training
    model.eval()
    try:
        return _scores(model, labelled, batch_size)[1]
    finally:
        model.train(was_training)


class _LabelledRows:
    """Token rows with the indices of their labels, moved to a device in batches."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        rows: Sequence[Row],
        labels: Sequence[str],
        max_length: int,
        device: torch.device,
    ) -> None:
        """Tokenize rows. Raises OptionError for a label outside ``labels`` and for a tokenizer without padding."""
        if tokenizer.pad_token_id is None:
            raise OptionError("the tokenizer has no padding token: set one (tokenizer.pad_token = tokenizer.eos_token)")
        numbers = {label: number for number, label in enumerate(labels)}
        unknown = next((label for _, label in rows if label not in numbers), None)
        if unknown is not None:
            raise OptionError(f"label {unknown!r} is not among the {len(labels)} labels: add it, or correct the row")
        self._rows = token_rows(tokenizer, [text for text, _ in rows], max_length)
        self.lengths = [len(row) for row in self._rows]
        self._numbers = torch.tensor([numbers[label] for _, label in rows], dtype=torch.long)
        self._padding, self._device = int(tokenizer.pad_token_id), device

    def batch(self, indices: Sequence[int]) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """Return the model's inputs for these rows, and the indices of their labels [rows]."""
        inputs = padded([self._rows[index] for index in indices], self._padding, self._device)
        return inputs, self._numbers[list(indices)].to(self._device)


@torch.no_grad()
def _scores(model: PreTrainedModel, rows: _LabelledRows, batch_size: int = 128) -> tuple[float, float]:
    """Return the mean loss in nats and the accuracy of a model in evaluation mode."""
    order = sorted(range(len(rows.lengths)), key=rows.lengths.__getitem__)
    loss, right = 0.0, 0
    for start in range(0, len(order), batch_size):
        inputs, labels = rows.batch(order[start : start + batch_size])
        logits = model(**inputs).logits.float()
        loss += float(cross_entropy(logits, labels, reduction="sum"))
        right += int((logits.argmax(-1) == labels).sum())
    return loss / len(order), right / len(order)

"""Training of the character LSTM with DP-SGD: rows of whole lines, Poisson batches, and ε after each epoch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from io import StringIO

import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.progress import progress
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.models.recurrent import CharLSTMForCausalLM
from leakage_tasks.training.char_lstm import fresh_model
from leakage_tasks.training.dp.accounting import PrivacyGuarantee
from leakage_tasks.training.dp.private import DpConfig, PrivateSteps
from leakage_tasks.training.dp.row_lstm import RowLSTM, use_row_lstm
from leakage_tasks.training.fitting import EpochLoss, TrainedLM, bits, copy_line_break_embedding, to_bits
from leakage_tasks.training.loop import BatchLoss, EpochLosses, TrainingLoop
from leakage_tasks.training.optimizers import check_share, make_optimizer, schedule
from leakage_tasks.training.rows import check_sizes, seeded, select_device
from leakage_tasks.training.text_batches import IGNORED, Windows

LENGTH = 80
"""Default number of characters in a row, more than the longest line of Python's help text."""
_CHECK_STREAMS = 64


@dataclass(frozen=True)
class PrivateLM(TrainedLM):
    """A model trained with DP-SGD, its number of rows, and its privacy guarantee."""

    rows: int = 0
    guarantee: PrivacyGuarantee = PrivacyGuarantee(0.0, 1.0, 0, 1.0)


def train_private_char_lm(
    text: str,
    private: DpConfig,
    *,
    validation: str | None = None,
    tokenizer: PreTrainedTokenizerFast | None = None,
    epochs: int = 10,
    batch_size: int = 256,
    length: int = LENGTH,
    optimizer: str = "adam",
    learning_rate: float = 2e-3,
    decay_from: float = 0.5,
    hidden_size: int = 200,
    layers: int = 2,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> PrivateLM:
    """Train the LSTM of :func:`~leakage_tasks.training.char_lstm.train_char_lm` with DP-SGD (Abadi et al. 2016).

    A row is a row of :func:`line_rows`, read from an empty state; its loss is the sum over its characters divided by
    ``length``. The (ε, δ) guarantee is for adding or removing one row. The distribution of lines to rows, the
    tokenizer's alphabet and the validation text are outside the guarantee. The losses have the ε spent after each
    epoch. Weights have the LSTM's usual names. On a CPU, equal arguments and thread counts give equal models. The
    caller's random state does not change.

    Args:
        text: training text.
        private: ε or noise, δ and clipping.
        validation: validation text.
        tokenizer: default: the characters of both texts.
        epochs: epochs of training.
        batch_size: expected rows per batch.
        length: characters per row.
        optimizer: a name in :data:`~leakage_tasks.training.optimizers.OPTIMIZERS`, applied to the clipped and
            noisy gradient; ε does not depend on it. The paper's is ``rmsprop``; SGD needs a ``learning_rate``
            near 1.
        learning_rate: constant up to the share ``decay_from`` of training.
        decay_from: from here on the rate falls linearly to 0.
        hidden_size: units per layer.
        layers: number of layers.
        seed: of weights, batches and noise.
        device: default: a GPU if there is one.

    Raises:
        OptionError: a size or δ is invalid, the optimizer is unknown, or the text is empty.
        LeakageError: opacus is missing.
    """
    check_sizes(epochs=epochs, batch_size=batch_size, length=length, hidden_size=hidden_size, layers=layers)
    check_share(decay_from)
    tokenizer = tokenizer or char_tokenizer(text + (validation or ""))
    torch_device = select_device(device)
    inputs, targets = (part.to(torch_device) for part in line_rows(text, tokenizer, length))
    model = fresh_model(tokenizer, seed, hidden_size, layers)
    torch.nn.Module.to(model, torch_device)
    checks = None if validation is None else Windows(validation, tokenizer, _CHECK_STREAMS, length, torch_device)
    optimiser = make_optimizer(optimizer, model.parameters(), learning_rate)
    stream, lstm = random.Random(f"rows:{seed}"), RowLSTM(model.lstm)

    def loss(batch: list[int]) -> BatchLoss:
        row_inputs, row_targets = inputs[batch], targets[batch]
        mean_loss = row_losses(model, row_inputs, row_targets).mean()
        nats = float(mean_loss.detach()) * row_targets.shape[1] * len(batch)
        return BatchLoss(mean_loss, nats, float((row_targets != IGNORED).sum()))

    def evaluate(epoch: int, losses: EpochLosses) -> EpochLoss:
        copy_line_break_embedding(model, tokenizer)
        model.eval()
        held_out = None if checks is None else bits(model, checks)
        return EpochLoss(to_bits(losses.total / max(losses.count, 1.0)), held_out, steps.epsilon())

    model.train()
    with seeded(seed, torch_device):
        with use_row_lstm(model, lstm):
            steps = PrivateSteps(
                model, optimiser, private, rows=len(inputs), batch_size=batch_size, epochs=epochs, seed=seed
            )
        planned = epochs * steps.steps_an_epoch
        loop = TrainingLoop(
            model=model,
            batches=lambda epoch: steps.batches(stream),
            step=partial(steps.take, loss),
            evaluate=evaluate,
            epochs=epochs,
            rates=schedule(optimiser, planned, decay_from),
            epoch_context=lambda: use_row_lstm(model, lstm),
            shown=lambda epoch_loss: f"{epoch_loss.training:.2f} bits/character",
        )
        try:
            losses = loop.run(progress(planned, "training with DP-SGD"))
        finally:
            with use_row_lstm(model, lstm):
                steps.close()
    return PrivateLM(model, tokenizer, losses, len(inputs), steps.guarantee())


def line_rows(text: str, tokenizer: PreTrainedTokenizerFast, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``text`` as rows of whole lines: inputs and targets, each [rows, ``length``].

    A row has as many lines as fit, with their line breaks; a longer line is split. So a line of up to ``length``
    characters, with its break, is in one row only, as is each copy of it. Each character is predicted once, from the
    character before it (the first from the start token). Positions after a row's end have ``IGNORED`` targets. Raises
    OptionError for an empty text.
    """
    pieces = list(_row_lengths(text, length))
    if not pieces:
        raise OptionError("the text has 0 characters: use a longer text")
    ids = torch.tensor(tokenizer.encode(text, verbose=False), dtype=torch.long)
    shown = torch.cat([ids.new_tensor([tokenizer.bos_token_id]), ids[:-1]])
    inputs, targets = ids.new_zeros(len(pieces), length), ids.new_full((len(pieces), length), IGNORED)
    for row, (row_ids, row_targets) in enumerate(zip(shown.split(pieces), ids.split(pieces), strict=True)):
        inputs[row, : len(row_ids)], targets[row, : len(row_targets)] = row_ids, row_targets
    return inputs, targets


def row_losses(model: CharLSTMForCausalLM, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the loss of each row [rows] in nats: the sum over its characters divided by the row length."""
    logits = model(input_ids=inputs, use_cache=False).logits
    costs = cross_entropy(logits.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none")
    return costs.sum(dim=1) / targets.shape[1]


def _row_lengths(text: str, length: int) -> Iterator[int]:
    """Yield the lengths of the rows in order. Only line breaks end a line."""
    row_length = 0
    for line in map(len, StringIO(text)):
        if row_length and row_length + line > length:
            yield row_length
            row_length = 0
        row_length += line
        while row_length > length:
            yield length
            row_length -= length
    if row_length:
        yield row_length

"""Training the character LSTM with DP-SGD: rows of whole lines, Poisson batches, and the ε of each epoch."""

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
from leakage_tasks.training.dp.row_lstm import RowLSTM, reading_rows
from leakage_tasks.training.fitting import EpochLoss, OnEpoch, TrainedLM, bits, copy_line_break_embedding, to_bits
from leakage_tasks.training.loop import BatchLoss, EpochLosses, TrainingLoop
from leakage_tasks.training.optimizers import check_share, make_optimizer, schedule
from leakage_tasks.training.rows import check_sizes, seeded, select_device
from leakage_tasks.training.text_batches import IGNORED, Windows

LENGTH = 80
"""Python's help keeps its lines below that."""
_CHECK_STREAMS = 64


@dataclass(frozen=True)
class PrivateLM(TrainedLM):
    """A model trained with DP-SGD, on how many rows, and what is promised for them."""

    rows: int = 0
    promise: PrivacyGuarantee = PrivacyGuarantee(0.0, 1.0, 0, 1.0)


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
    on_epoch: OnEpoch | None = None,
) -> PrivateLM:
    """Train the LSTM of :func:`~leakage_tasks.training.char_lstm.train_char_lm` with DP-SGD (Abadi et al. 2016).

    A row is what :func:`line_rows` makes of ``text``, read from an empty state; its loss is the sum over its characters
    divided by ``length``. ``private`` promises (ε, δ)-differential privacy with regard to adding or leaving out one
    row; how lines were put into rows, the tokenizer's alphabet and the validation text are outside that. The losses
    hold the ε spent after each epoch. ``batch_size`` is the expected size of a batch. ``optimizer`` is one of
    :data:`~leakage_tasks.training.optimizers.OPTIMIZERS`, which takes the clipped and noisy gradient as any other (the
    paper's is ``rmsprop``; SGD wants a ``learning_rate`` near 1); ε is the same for all. The learning rate is constant
    up to the share ``decay_from`` of training, then falls linearly to nothing. The weights have their usual names. On
    a CPU the same arguments and thread count give the same model; the caller's random state is left alone. Raises
    OptionError on unusable sizes, an unknown optimizer, an empty text or a ``delta`` too large, LeakageError where
    opacus is missing.
    """
    check_sizes(epochs=epochs, batch_size=batch_size, length=length, hidden_size=hidden_size, layers=layers)
    check_share(decay_from)
    tokenizer = tokenizer or char_tokenizer(text + (validation or ""))
    place = select_device(device)
    inputs, targets = (part.to(place) for part in line_rows(text, tokenizer, length))
    model = fresh_model(tokenizer, seed, hidden_size, layers)
    torch.nn.Module.to(model, place)
    checks = None if validation is None else Windows(validation, tokenizer, _CHECK_STREAMS, length, place)
    optimiser = make_optimizer(optimizer, model.parameters(), learning_rate)
    stream, lstm = random.Random(f"rows:{seed}"), RowLSTM(model.lstm)

    def loss(batch: list[int]) -> BatchLoss:
        read, wanted = inputs[batch], targets[batch]
        found = row_losses(model, read, wanted).mean()
        nats = float(found.detach()) * wanted.shape[1] * len(batch)
        return BatchLoss(found, nats, float((wanted != IGNORED).sum()))

    def evaluate(epoch: int, losses: EpochLosses) -> EpochLoss:
        copy_line_break_embedding(model, tokenizer)
        model.eval()
        found = None if checks is None else bits(model, checks)
        return EpochLoss(to_bits(losses.total / max(losses.count, 1.0)), found, steps.epsilon())

    model.train()
    with seeded(seed, place):
        with reading_rows(model, lstm):
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
            epoch_context=lambda: reading_rows(model, lstm),
            shown=lambda each: f"{each.training:.2f} bits/character",
            on_epoch=on_epoch,
        )
        try:
            losses = loop.run(progress(planned, "training with DP-SGD"))
        finally:
            with reading_rows(model, lstm):
                steps.close()
    return PrivateLM(model, tokenizer, losses, len(inputs), steps.promise())


def line_rows(text: str, tokenizer: PreTrainedTokenizerFast, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """``text`` as rows of whole lines: (inputs, targets), each [rows, ``length``].

    As many lines as fit go into a row, with their ends; a longer line is cut. So a line of ``length`` characters or
    fewer, its end included, is in one row alone, and so is each copy of it. Each character is predicted once, from
    the one before it (the first of all from the start token); places after a row's end are ``IGNORED`` targets.
    Raises OptionError on an empty text.
    """
    pieces = list(_row_lengths(text, length))
    if not pieces:
        raise OptionError("a text of 0 characters cannot be learnt from: give a longer one")
    ids = torch.tensor(tokenizer.encode(text, verbose=False), dtype=torch.long)
    shown = torch.cat([ids.new_tensor([tokenizer.bos_token_id]), ids[:-1]])
    inputs, targets = ids.new_zeros(len(pieces), length), ids.new_full((len(pieces), length), IGNORED)
    for row, (read, wanted) in enumerate(zip(shown.split(pieces), ids.split(pieces), strict=True)):
        inputs[row, : len(read)], targets[row, : len(wanted)] = read, wanted
    return inputs, targets


def row_losses(model: CharLSTMForCausalLM, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Loss of each row [rows], in nats: summed over its characters, divided by the rows' length."""
    logits = model(input_ids=inputs, use_cache=False).logits
    costs = cross_entropy(logits.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none")
    return costs.sum(dim=1) / targets.shape[1]


def _row_lengths(text: str, length: int) -> Iterator[int]:
    """Lengths of the rows, in order; the characters that end a line are line breaks and nothing else."""
    held = 0
    for line in map(len, StringIO(text)):
        if held and held + line > length:
            yield held
            held = 0
        held += line
        while held > length:
            yield length
            held -= length
    if held:
        yield held

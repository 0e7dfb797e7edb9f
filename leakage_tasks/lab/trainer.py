"""Training a character LSTM on a text: stateful batches, Adam, clipped gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import LambdaLR
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from leakage_tasks.errors import OptionError
from leakage_tasks.lab.rows import check_sizes, progress
from leakage_tasks.models.char_lstm import CharLSTMConfig, CharLSTMForCausalLM, State
from leakage_tasks.models.char_tokenizer import char_tokenizer

IGNORED = -100


@dataclass(frozen=True)
class EpochLoss:
    """Mean loss of one epoch in bits a character; ``validation`` is None without a validation text.

    ``epsilon`` is what DP-SGD has spent so far, for one row; None in ordinary training.
    """

    training: float
    validation: float | None = None
    epsilon: float | None = None


@dataclass(frozen=True)
class TrainedLM:
    """A trained model with its tokenizer and its losses, one an epoch."""

    model: CharLSTMForCausalLM
    tokenizer: PreTrainedTokenizerFast
    losses: list[EpochLoss] = field(default_factory=list)


OnEpoch = Callable[[int, CharLSTMForCausalLM, Sequence[EpochLoss]], None]
"""Called after each epoch (counted from 1) with the model in evaluation mode and the losses so far."""


def train_char_lm(
    text: str,
    *,
    validation: str | None = None,
    tokenizer: PreTrainedTokenizerFast | None = None,
    epochs: int = 8,
    batch_size: int = 64,
    length: int = 32,
    learning_rate: float = 2e-3,
    decay_from: float = 1.0,
    clip: float = 1.0,
    hidden_size: int = 200,
    layers: int = 2,
    seed: int = 0,
    device: str | torch.device | None = None,
    dtype: torch.dtype = torch.float32,
    on_epoch: OnEpoch | None = None,
) -> TrainedLM:
    """Train an LSTM (default: the 2×200 one of The Secret Sharer) on ``text``, read as ``batch_size`` parallel streams.

    The recurrent state is carried from window to window of ``length`` characters, gradients are not. Adam's
    learning rate is constant up to the share ``decay_from`` of training, then falls linearly to nothing.
    ``tokenizer`` defaults to one over the characters of both texts. On a CPU the same arguments and thread
    count give the same model to the bit. The caller's random state is left alone. Raises OptionError on a
    text too short to learn from, a size below 1 or a share outside 0 to 1.
    """
    check_sizes(epochs=epochs, batch_size=batch_size, length=length, hidden_size=hidden_size, layers=layers)
    check_share(decay_from)
    tokenizer = tokenizer or char_tokenizer(text + (validation or ""))
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    model = fresh_model(tokenizer, seed, hidden_size, layers)
    torch.nn.Module.to(model, place, dtype)
    batches = Windows(text, tokenizer, batch_size, length, place)
    checks = None if validation is None else Windows(validation, tokenizer, batch_size, length, place)
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    rates = schedule(optimiser, epochs * len(batches), decay_from)
    losses: list[EpochLoss] = []
    with progress(epochs * len(batches), "training") as bar:
        for epoch in range(1, epochs + 1):
            training = _train_epoch(model, optimiser, rates, batches, clip, bar, f"epoch {epoch}/{epochs}")
            start_lines_like_breaks(model, tokenizer)
            model.eval()
            losses.append(EpochLoss(training, None if checks is None else bits(model, checks)))
            if on_epoch is not None:
                on_epoch(epoch, model, losses)
    return TrainedLM(model, tokenizer, losses)


def streams(ids: torch.Tensor, batch_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Lay ``ids`` [n] out as ``batch_size`` parallel streams: (inputs, targets), each [batch, steps].

    Row after row, the targets are ids[1:], each exactly once; places after the end hold ``IGNORED`` (and
    an input of no consequence).
    """
    count = len(ids) - 1
    steps = math.ceil(count / batch_size)
    inputs = ids.new_zeros(batch_size * steps)
    targets = ids.new_full((batch_size * steps,), IGNORED)
    inputs[:count], targets[:count] = ids[:-1], ids[1:]
    return inputs.view(batch_size, steps), targets.view(batch_size, steps)


def start_lines_like_breaks(model: CharLSTMForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """Give ``<s>`` the embedding of the line break.

    The harness puts the start token before every text it scores, but none occurs in a training text, so
    its embedding would stay as it was drawn. Every line the model learnt from followed a line break; with
    its embedding, ``<s>`` means "a line starts here". Without a line break in the vocabulary nothing is done.
    """
    start, line_break = tokenizer.bos_token_id, tokenizer.get_vocab().get("\n")
    if line_break is None:
        return
    with torch.no_grad():
        model.embedding.weight[start] = model.embedding.weight[line_break]


class Windows:
    """The windows of a text, in order: (inputs, targets), each [batch, length or less]."""

    def __init__(
        self, text: str, tokenizer: PreTrainedTokenizerFast, batch_size: int, length: int, device: torch.device
    ) -> None:
        ids = torch.tensor(tokenizer.encode(text, verbose=False), dtype=torch.long)
        if len(ids) < 2:
            raise OptionError(f"a text of {len(ids)} characters cannot be learnt from: give one of 2 or more")
        self.inputs, self.targets = (part.to(device).split(length, dim=1) for part in streams(ids, batch_size))
        self.characters = len(ids) - 1

    def __len__(self) -> int:
        return len(self.inputs)


def _train_epoch(
    model: CharLSTMForCausalLM,
    optimiser: torch.optim.Optimizer,
    rates: LambdaLR,
    windows: Windows,
    clip: float,
    bar: tqdm[None],
    label: str,
) -> float:
    model.train()
    state: State | None = None
    total = torch.zeros((), device=model.device)
    for inputs, targets in zip(windows.inputs, windows.targets, strict=True):
        loss, state = _window_loss(model, inputs, targets, state)
        counted = (targets != IGNORED).sum()
        optimiser.zero_grad()
        (loss / counted).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimiser.step()
        rates.step()
        total += loss.detach()
        bar.update()
        bar.set_postfix_str(f"{label}, {to_bits(float(loss.detach() / counted)):.2f} bits/character", refresh=False)
    return to_bits(float(total) / windows.characters)


def schedule(optimiser: torch.optim.Optimizer, steps: int, decay_from: float) -> LambdaLR:
    """A learning rate that is constant up to the share ``decay_from`` of ``steps``, then falls linearly to nothing."""
    falling = max((1 - decay_from) * steps, 1)
    return LambdaLR(optimiser, lambda step: min(1.0, (steps - step) / falling))


@torch.no_grad()
def bits(model: CharLSTMForCausalLM, windows: Windows) -> float:
    """Mean loss of ``windows`` read in order, the state carried along, in bits a character."""
    state: State | None = None
    total = torch.zeros((), device=model.device)
    for inputs, targets in zip(windows.inputs, windows.targets, strict=True):
        loss, state = _window_loss(model, inputs, targets, state)
        total += loss
    return to_bits(float(total) / windows.characters)


def _window_loss(
    model: CharLSTMForCausalLM, inputs: torch.Tensor, targets: torch.Tensor, state: State | None
) -> tuple[torch.Tensor, State]:
    """Summed loss of a window in nats, and the state after it, cut off from the gradient."""
    output = model(inputs, past_key_values=state, use_cache=True)
    h, c = output.past_key_values
    loss = cross_entropy(output.logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED, reduction="sum")
    return loss, (h.detach(), c.detach())


def fresh_model(
    tokenizer: PreTrainedTokenizerFast, seed: int, hidden_size: int = 200, layers: int = 2
) -> CharLSTMForCausalLM:
    """An untrained model over the tokenizer's entries, the same for the same seed."""
    special = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), tokenizer.bos_token_id)
    config = CharLSTMConfig(len(tokenizer), hidden_size=hidden_size, num_hidden_layers=layers, **special)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return CharLSTMForCausalLM(config)


def to_bits(nats: float) -> float:
    """Nats in bits."""
    return nats / math.log(2)


def check_share(decay_from: float) -> None:
    """Raise OptionError unless ``decay_from`` is a share."""
    if not 0 <= decay_from <= 1:
        raise OptionError(f"decay_from is {decay_from}: give a share of training from 0 to 1")

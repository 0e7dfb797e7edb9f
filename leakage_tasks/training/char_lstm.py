"""Training a character LSTM on a text: stateful batches, Adam, clipped gradients."""

from __future__ import annotations

import torch
from transformers import PreTrainedTokenizerFast

from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.training.fitting import OnEpoch, TrainedLM, TrainingConfig, fit
from leakage_tasks.training.optimizers import check_share
from leakage_tasks.training.rows import check_sizes, chosen_device, seeded
from leakage_tasks.training.text_batches import Windows


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
    show_progress: bool = True,
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
    place = chosen_device(device)
    model = fresh_model(tokenizer, seed, hidden_size, layers)
    torch.nn.Module.to(model, place, dtype)
    batches = Windows(text, tokenizer, batch_size, length, place)
    checks = None if validation is None else Windows(validation, tokenizer, batch_size, length, place)
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    how = TrainingConfig(epochs, clip, decay_from, seed=seed, show_progress=show_progress)
    return fit(model, tokenizer, batches, optimiser, how, checks=checks, on_epoch=on_epoch)


def fresh_model(
    tokenizer: PreTrainedTokenizerFast, seed: int, hidden_size: int = 200, layers: int = 2
) -> CharLSTMForCausalLM:
    """An untrained model over the tokenizer's entries, the same for the same seed."""
    special = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), tokenizer.bos_token_id)
    config = CharLSTMConfig(vocab_size=len(tokenizer), hidden_size=hidden_size, num_hidden_layers=layers, **special)
    with seeded(seed, torch.device("cpu")):
        return CharLSTMForCausalLM(config)

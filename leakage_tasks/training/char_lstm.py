"""Training of a character LSTM on a text: stateful batches, Adam, clipped gradients."""

from __future__ import annotations

import torch
from transformers import PreTrainedTokenizerFast

from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.training.fitting import OnEpoch, TrainedLM, TrainingConfig, fit
from leakage_tasks.training.optimizers import check_share
from leakage_tasks.training.rows import check_sizes, seeded, select_device
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
    """Train an LSTM on ``text``, by default the 2×200 LSTM of The Secret Sharer.

    The text is split into ``batch_size`` parallel streams. The recurrent state is carried from window to window,
    without gradients. On a CPU the result is reproducible bit for bit with equal arguments and thread counts. Torch's
    global random state is unchanged.

    Args:
        text: The training text.
        validation: The validation text.
        tokenizer: By default a tokenizer over the characters of both texts.
        epochs: Number of epochs.
        batch_size: Number of streams.
        length: Number of tokens in a window.
        learning_rate: Adam's learning rate.
        decay_from: Share of training after which the learning rate decays linearly to 0.
        clip: Maximum norm of the gradients.
        hidden_size: Units per layer.
        layers: Number of layers.
        seed: Random seed.
        device: By default the first GPU, or the CPU.
        dtype: Dtype of the weights.
        on_epoch: Called after each epoch.
        show_progress: Show a progress bar.

    Returns:
        The model, its tokenizer and its losses.

    Raises:
        OptionError: The text is too short, a size is below 1, or ``decay_from`` is not between 0 and 1.
    """
    check_sizes(epochs=epochs, batch_size=batch_size, length=length, hidden_size=hidden_size, layers=layers)
    check_share(decay_from)
    tokenizer = tokenizer or char_tokenizer(text + (validation or ""))
    target_device = select_device(device)
    model = fresh_model(tokenizer, seed, hidden_size, layers)
    torch.nn.Module.to(model, target_device, dtype)
    batches = Windows(text, tokenizer, batch_size, length, target_device)
    validation_batches = (
        None if validation is None else Windows(validation, tokenizer, batch_size, length, target_device)
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    config = TrainingConfig(epochs, clip, decay_from, seed=seed, show_progress=show_progress)
    return fit(model, tokenizer, batches, optimiser, config, validation_batches=validation_batches, on_epoch=on_epoch)


def fresh_model(
    tokenizer: PreTrainedTokenizerFast, seed: int, hidden_size: int = 200, layers: int = 2
) -> CharLSTMForCausalLM:
    """Return an untrained model for the tokenizer's vocabulary.

    Args:
        tokenizer: The tokenizer.
        seed: Random seed of the weights.
        hidden_size: Units per layer.
        layers: Number of layers.

    Returns:
        The model on the CPU.
    """
    special = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), tokenizer.bos_token_id)
    config = CharLSTMConfig(vocab_size=len(tokenizer), hidden_size=hidden_size, num_hidden_layers=layers, **special)
    with seeded(seed, torch.device("cpu")):
        return CharLSTMForCausalLM(config)

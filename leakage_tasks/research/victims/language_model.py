"""Training of networks on a text by a recipe, as in sections 4 and 6 of The Secret Sharer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from leakage_tasks.core.errors import OptionError
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.models.stateful import StatefulCausalLM
from leakage_tasks.research.victims.architectures import build
from leakage_tasks.training.fitting import OnEpoch, TrainedLM, TrainingConfig, fit
from leakage_tasks.training.optimizers import check_share, make_optimizer
from leakage_tasks.training.rows import check_sizes, select_device
from leakage_tasks.training.text_batches import Batches, DrawnWindows, OverlappingWindows, Windows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

BATCHES = ("shuffled", "bagged", "streams")
DTYPES = {"float32": None, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class LanguageModelRecipe:
    """Architecture and training of a network."""

    architecture: str = "lstm-2x200"
    """A name for :func:`~leakage_tasks.research.victims.architectures.build`."""
    units: int | None = None
    """Units per layer; replaces the width in the architecture's name."""
    optimizer: str = "rmsprop"
    """A name for :func:`~leakage_tasks.training.optimizers.make_optimizer`."""
    learning_rate: float | None = None
    """Learning rate; None for the optimizer's default."""
    batch_size: int = 32
    """Windows per batch."""
    length: int = 20
    """Tokens per window."""
    batches: str = "shuffled"
    """The order of the windows. ``shuffled`` reads each once per epoch in random order, ``bagged`` draws as many with
    replacement; both begin with an empty state. ``streams`` reads the text in order and carries the state from window
    to window, which a transformer cannot do."""
    epochs: int = 20
    """Maximum number of epochs."""
    patience: int | None = None
    """Number of epochs without a lower validation loss after which training stops and returns to the best epoch; None:
    train all ``epochs`` and keep the last weights."""
    weight_decay: float = 0.0
    """Factor of an L2 penalty."""
    dropout: float = 0.0
    """Dropout rate between and after layers."""
    clip: float = 1.0
    """The norm at which gradients are clipped."""
    decay_from: float = 1.0
    """The share of training with a constant learning rate, which then falls linearly to 0."""
    dtype: str = "float32"
    """``bfloat16`` computes in mixed precision; weights remain in float32."""

    def check(self) -> None:
        """Raise OptionError for the first invalid field, except fields that the network or optimizer checks."""
        patience = 1 if self.patience is None else self.patience
        check_sizes(epochs=self.epochs, batch_size=self.batch_size, length=self.length, patience=patience)
        check_share(self.decay_from)
        if not self.clip > 0:
            raise OptionError(f"clip is {self.clip}: use a norm above 0 (float('inf') for no clipping)")
        for name, value, known in (("batches", self.batches, BATCHES), ("dtype", self.dtype, DTYPES)):
            if value not in known:
                raise OptionError(f"{name} is {value!r}: use one of {', '.join(known)}")


def train_lm(
    text: str,
    recipe: LanguageModelRecipe | None = None,
    *,
    validation: str | None = None,
    tokenizer: PreTrainedTokenizerFast | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    on_epoch: OnEpoch | None = None,
) -> TrainedLM:
    """Train the network of ``recipe`` on ``text``, on the first GPU if there is one.

    The validation loss counts each token once. Networks with a state read the validation text as streams, with a line
    of context or more; a transformer reads half-overlapping windows of ``recipe.length``, with less context. On a CPU,
    equal arguments and thread counts give equal models. The caller's random state does not change.

    Args:
        text: training text.
        recipe: architecture and training.
        validation: validation text.
        tokenizer: default: the characters of both texts. With another tokenizer, losses are in bits per token.
        seed: of weights, order and dropout.
        device: default: a GPU if there is one.
        on_epoch: called after each epoch.

    Raises:
        OptionError: a field is invalid, or the text is too short.
    """
    recipe = recipe or LanguageModelRecipe()
    recipe.check()
    tokenizer = tokenizer or char_tokenizer(text + (validation or ""))
    torch_device = select_device(device)
    model = build(recipe.architecture, tokenizer, seed=seed, dropout=recipe.dropout, units=recipe.units)
    torch.nn.Module.to(model, torch_device)
    sizes, stateful = (recipe.batch_size, recipe.length, model.device), isinstance(model, StatefulCausalLM)
    if recipe.batches != "streams":
        with_replacement = recipe.batches == "bagged"
        batches: Batches = DrawnWindows(text, tokenizer, *sizes, seed=seed, replacement=with_replacement)
    elif stateful:
        batches = Windows(text, tokenizer, *sizes)
    else:
        raise OptionError(
            f"batches is 'streams': a {recipe.architecture} carries no state from window to window: use shuffled or "
            "bagged"
        )
    in_order = Windows if stateful else OverlappingWindows
    return fit(
        model,
        tokenizer,
        batches,
        make_optimizer(recipe.optimizer, model.parameters(), recipe.learning_rate, recipe.weight_decay),
        TrainingConfig(recipe.epochs, recipe.clip, recipe.decay_from, recipe.patience, DTYPES[recipe.dtype], seed),
        validation_batches=None if validation is None else in_order(validation, tokenizer, *sizes),
        on_epoch=on_epoch,
    )

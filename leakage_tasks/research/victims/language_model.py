"""Training any of the lab's networks on a text, by a recipe: The Secret Sharer's Sections 4 and 6."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
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
    """How a network is made and trained."""

    architecture: str = "lstm-2x200"
    """A name for :func:`~leakage_tasks.research.victims.architectures.build`."""
    units: int | None = None
    """In place of the width in that name."""
    optimizer: str = "rmsprop"
    """A name for :func:`~leakage_tasks.training.optimizers.make_optimizer`."""
    learning_rate: float | None = None
    """None: the optimizer's usual one."""
    batch_size: int = 32
    """Windows in a batch."""
    length: int = 20
    """Tokens in a window."""
    batches: str = "shuffled"
    """Which windows are a batch: ``shuffled``, each once an epoch, in random order; ``bagged``, as many drawn with
    replacement; both read from an empty state. ``streams`` reads the text in order and carries the state from window to
    window, which a transformer cannot."""
    epochs: int = 20
    """The most there are."""
    patience: int | None = None
    """Stops training once the validation loss has not fallen for so many epochs and goes back to the best (None: all
    ``epochs``, the last one's weights)."""
    weight_decay: float = 0.0
    """An L2 penalty."""
    dropout: float = 0.0
    """Acts between and after layers."""
    clip: float = 1.0
    """The norm that gradients are clipped to."""
    decay_from: float = 1.0
    """The share of training up to which the learning rate is constant; then it falls linearly to nothing."""
    dtype: str = "float32"
    """``bfloat16`` computes in mixed precision; weights stay in float32."""

    def check(self) -> None:
        """Raise OptionError naming the first setting that cannot be, networks' and optimizers' own excepted."""
        patience = 1 if self.patience is None else self.patience
        check_sizes(epochs=self.epochs, batch_size=self.batch_size, length=self.length, patience=patience)
        check_share(self.decay_from)
        if not self.clip > 0:
            raise OptionError(f"clip is {self.clip}: give a norm above 0 (float('inf') clips nothing)")
        for name, value, known in (("batches", self.batches, BATCHES), ("dtype", self.dtype, DTYPES)):
            if value not in known:
                raise OptionError(f"{name} is {value!r}: give one of {', '.join(known)}")


def train_lm(
    text: str,
    recipe: LanguageModelRecipe | None = None,
    *,
    validation: str | None = None,
    tokenizer: PreTrainedTokenizerFast | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    checkpoints: str | Path | None = None,
    on_epoch: OnEpoch | None = None,
) -> TrainedLM:
    """Train the network of ``recipe`` on ``text``, on the first GPU if there is one.

    ``tokenizer`` defaults to one over the characters of both texts; with another, losses are in bits a token. The
    validation loss is that of each token once: read as streams by networks that carry a state (a whole line of
    context and more), in half overlapping windows of ``recipe.length`` by the transformer. So epochs and recipes
    compare on the same tokens; a transformer has less context.

    ``checkpoints`` is a folder for each epoch's model and tokenizer (``epoch-01`` …, of which those already there are
    replaced). On a CPU the same arguments and thread count give the same model to the bit. The caller's random state
    is left alone. Raises OptionError on settings that cannot be or a text too short, LeakageError where a checkpoint
    cannot be written.
    """
    recipe = recipe or LanguageModelRecipe()
    recipe.check()
    tokenizer = tokenizer or char_tokenizer(text + (validation or ""))
    place = select_device(device)
    model = build(recipe.architecture, tokenizer, seed=seed, dropout=recipe.dropout, units=recipe.units)
    torch.nn.Module.to(model, place)
    sizes, stateful = (recipe.batch_size, recipe.length, model.device), isinstance(model, StatefulCausalLM)
    if recipe.batches != "streams":
        drawn = recipe.batches == "bagged"
        batches: Batches = DrawnWindows(text, tokenizer, *sizes, seed=seed, replacement=drawn)
    elif stateful:
        batches = Windows(text, tokenizer, *sizes)
    else:
        raise OptionError(
            f"batches is 'streams': a {recipe.architecture} carries no state from one to the next: give shuffled or "
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
        checkpoints=checkpoints,
        on_epoch=on_epoch,
    )

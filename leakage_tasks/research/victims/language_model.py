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
from leakage_tasks.training.rows import check_sizes, chosen_device
from leakage_tasks.training.text_batches import Batches, DrawnWindows, OverlappingWindows, Windows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

BATCHES = ("shuffled", "bagged", "streams")
DTYPES = {"float32": None, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class LanguageModelRecipe:
    """How a network is made and trained.

    ``architecture`` and ``units`` are those of :func:`~leakage_tasks.research.victims.architectures.build`,
    ``optimizer`` and ``learning_rate`` (None: its usual one) and ``weight_decay`` (an L2 penalty) those of
    :func:`~leakage_tasks.training.optimizers.make_optimizer`.

    A batch is ``batch_size`` windows of ``length`` tokens. ``batches`` says which: ``shuffled``, each window once an
    epoch, in random order; ``bagged``, as many drawn with replacement; both read from an empty state. ``streams``
    reads the text in order and carries the state from window to window, which a transformer cannot.

    ``patience`` stops training once the validation loss has not fallen for so many epochs and goes back to the best
    (None: all ``epochs``, the last one's weights). ``dropout`` acts between and after layers. Gradients are clipped to
    the norm ``clip``; the learning rate is constant up to the share ``decay_from`` of training, then falls linearly to
    nothing. ``dtype`` ``bfloat16`` computes in mixed precision; weights stay in float32.
    """

    architecture: str = "lstm-2x200"
    units: int | None = None
    optimizer: str = "rmsprop"
    learning_rate: float | None = None
    batch_size: int = 32
    length: int = 20
    batches: str = "shuffled"
    epochs: int = 20
    patience: int | None = None
    weight_decay: float = 0.0
    dropout: float = 0.0
    clip: float = 1.0
    decay_from: float = 1.0
    dtype: str = "float32"

    def check(self) -> None:
        """Raise OptionError naming the first setting that cannot be, networks' and optimizers' own excepted."""
        check_sizes(epochs=self.epochs, batch_size=self.batch_size, length=self.length)
        if self.patience is not None:
            check_sizes(patience=self.patience)
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
    place = chosen_device(device)
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
        checks=None if validation is None else in_order(validation, tokenizer, *sizes),
        checkpoints=checkpoints,
        on_epoch=on_epoch,
    )

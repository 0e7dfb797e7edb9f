"""Training of a bridge between a classifier's encoder and its base model's head, both frozen (Mix and Match, 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.models.bridge import SIZES, attach, check_room, new_bridge
from leakage_tasks.models.frankenstein import BRIDGED, MARK, graft
from leakage_tasks.targets.batches import room_of
from leakage_tasks.training.masked_lm import TOKENS, MaskedRecipe, MaskedTraining, train_masked_lm


@dataclass(frozen=True, kw_only=True)
class BridgeRecipe:
    """The kind and size of a bridge, and the options of its training."""

    kind: str
    """``adapter`` or ``prompt``."""
    size: int | None = None
    """Number of units of an adapter, or of vectors of a prompt; None means 64 units or 20 vectors."""
    epochs: int = 3
    """Number of epochs."""
    seed: int = 0
    """Random seed of the initial bridge, the masks and the order of texts."""
    learning_rate: float = 1e-3
    """Peak learning rate, as in :class:`~leakage_tasks.training.masked_lm.MaskedRecipe`."""
    max_length: int = TOKENS
    """Maximum number of tokens of a text."""

    def __post_init__(self) -> None:
        if self.kind not in SIZES:
            raise OptionError(f"kind is {self.kind!r}: use {' or '.join(SIZES)}")
        if self.size is not None and self.size < 1:
            raise OptionError(f"bridge_size={self.size}: give 1 or more")


def train_bridge(
    classifier: Any,
    tokenizer: Any,
    base: str | Path,
    texts: Sequence[str],
    recipe: BridgeRecipe,
    *,
    max_tokens: int | None = None,
    trust_remote_code: bool = False,
) -> MaskedTraining:
    """Combine ``classifier`` with ``base``'s head and train a bridge between them to fill masks in ``texts``.

    Encoder and head do not change.

    Args:
        classifier: The classifier.
        tokenizer: The classifier's tokenizer.
        base: Folder or hub name of the base model.
        texts: Public texts.
        recipe: Options of the bridge and its training.
        max_tokens: Maximum number of tokens of prompt and text; by default the encoder's.
        trust_remote_code: Run code that comes with ``base``.

    Returns:
        The Frankenstein model and its training losses.

    Raises:
        TargetError: Encoder and head do not fit, see :func:`~leakage_tasks.models.frankenstein.graft`.
        OptionError: The prompt is too long, or see :func:`~leakage_tasks.training.masked_lm.train_masked_lm`.
    """
    size, max_tokens = recipe.size or SIZES[recipe.kind], max_tokens or room_of(classifier, tokenizer)
    check_room(recipe.kind, size, max_tokens)
    model = graft(classifier, base, tokenizer=tokenizer, trust_remote_code=trust_remote_code)
    model.requires_grad_(False)
    bridge = new_bridge(model, recipe.kind, size, recipe.seed)
    attach(model, bridge)
    setattr(model.config, MARK, BRIDGED)
    length = min(recipe.max_length, (max_tokens or recipe.max_length + bridge.tokens) - bridge.tokens)
    masked_recipe = MaskedRecipe(
        epochs=recipe.epochs,
        learning_rate=recipe.learning_rate,
        max_length=length,
        seed=recipe.seed,
        device=model.device,
    )
    return train_masked_lm(model, tokenizer, texts, masked_recipe)

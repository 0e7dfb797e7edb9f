"""Training what joins a classifier's encoder to its base model's head, both frozen: Mix and Match, section 6.3."""

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
    """What a bridge is, and how it is trained."""

    kind: str
    """``adapter`` or ``prompt``."""
    size: int | None = None
    """Units of an adapter, or vectors of a prompt; None: 64 and 20."""
    epochs: int = 3
    """Times that each text is read."""
    seed: int = 0
    """Of the bridge it starts from, of masks and order."""
    learning_rate: float = 1e-3
    """As of :class:`~leakage_tasks.training.masked_lm.MaskedRecipe`."""
    max_length: int = TOKENS
    """Tokens of a text that are read at most."""

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
    how: BridgeRecipe,
    *,
    room: int | None = None,
    trust_remote_code: bool = False,
) -> MaskedTraining:
    """The Frankenstein model of ``classifier`` and ``base`` with a bridge trained to fill masks in public ``texts``.

    Encoder and head stay as they are, bit for bit. ``room`` is the most tokens to read, None for the encoder's. Raises
    TargetError as :func:`~leakage_tasks.models.frankenstein.graft`, and OptionError for a prompt that does not fit the
    room and as :func:`~leakage_tasks.training.masked_lm.train_masked_lm`.
    """
    size, room = how.size or SIZES[how.kind], room or room_of(classifier, tokenizer)
    check_room(how.kind, size, room)
    model = graft(classifier, base, tokenizer=tokenizer, trust_remote_code=trust_remote_code)
    model.requires_grad_(False)
    made = new_bridge(model, how.kind, size, how.seed)
    attach(model, made)
    setattr(model.config, MARK, BRIDGED)
    length = min(how.max_length, (room or how.max_length + made.tokens) - made.tokens)
    recipe = MaskedRecipe(
        epochs=how.epochs, learning_rate=how.learning_rate, max_length=length, seed=how.seed, device=model.device
    )
    return train_masked_lm(model, tokenizer, texts, recipe)

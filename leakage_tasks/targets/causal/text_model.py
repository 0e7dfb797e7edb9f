"""A model that writes text, as it runs: where, in which precision, how much at once."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

from leakage_tasks.targets.batches import PADDING_ON_CPU
from leakage_tasks.targets.embedded_tokens import EmbeddedTokens
from leakage_tasks.targets.full_float32 import full_float32
from leakage_tasks.targets.memory import LOGIT_BYTES, RowLimit
from leakage_tasks.targets.memory_budget import MemoryBudget
from leakage_tasks.targets.noise import NO_NOISE, Noise
from leakage_tasks.targets.pass_size import SPREAD, PassSize, is_spread
from leakage_tasks.targets.rounding import in_half_precision
from leakage_tasks.targets.tokens.vocabulary import token_pieces

ANY_LENGTH = 2048
"""Tokens to read at most with a model that sets no bound."""


class TextModel:
    """A model that writes text, with its tokenizer.

    ``batch_size`` counts texts of ``max_length`` tokens, which by default are those that the model can read.
    ``autocast`` is the type of the harness' mixed precision, if it is on. ``cached=False`` reads every text anew from
    its first token; it is what the cached pass is checked against.
    """

    noise: Any
    """The rounding noise of the model's costs, a :class:`Noise`."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        device: torch.device | str | None = None,
        batch_size: int | None = None,
        max_length: int | None = None,
        autocast: torch.dtype | None = None,
        cached: bool = True,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.device = torch.device(device if device is not None else model.device)
        # XLNet's kind says −1 for any number.
        positions = getattr(model.config, "max_position_embeddings", None) or 0
        self.max_length = max_length or (positions if positions > 0 else ANY_LENGTH)
        self.batch_size, self.autocast, self.cached = batch_size, autocast, cached
        self._adapted = True
        self._recorded: dict[bool, Noise] = {}
        spread = is_spread(model)
        self.limit, self.whole_texts, self.states = RowLimit(), RowLimit(), MemoryBudget(self.device, spread)
        self.most_padding = PADDING_ON_CPU if self.device.type == "cpu" else math.inf
        """Share of a batch's own tokens that there may be of padding, where whole texts share it."""
        self.pass_size = PassSize(SPREAD if spread else None)
        self.spelling = cache(lambda: token_pieces(tokenizer, model.config.get_text_config().vocab_size))
        """The text each token adds, found out once."""
        self.embedded = EmbeddedTokens(model, tokenizer)

    def texts_that_fit(self, length: int) -> int:
        """Texts of ``length`` tokens, with logits at each of them, that a pass has memory for; one at least."""
        vocabulary = self.model.config.get_text_config().vocab_size
        return max(1, self.states.batch // (LOGIT_BYTES * vocabulary * max(length, 1)))

    @property
    def recorded_noise(self) -> Noise:
        """The noise that findings state: none in float32; in 16 bits that of fillings once it was measured on them."""
        known = self._recorded.get(self._adapted)
        if known is None:
            known = self.noise if in_half_precision(self.model, self.autocast) else NO_NOISE
        return known

    @recorded_noise.setter
    def recorded_noise(self, noise: Noise) -> None:
        self._recorded[self._adapted] = noise

    @contextlib.contextmanager
    def inference(self) -> Iterator[None]:
        """Compute without gradients, in full float32, and in the harness' mixed precision if it is on."""
        precision = torch.autocast(self.device.type, dtype=self.autocast, enabled=self.autocast is not None)
        with torch.inference_mode(), full_float32(self.device), precision:
            yield

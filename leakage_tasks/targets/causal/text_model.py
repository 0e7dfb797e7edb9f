"""A language model with its device, precision and batch limits."""

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
from leakage_tasks.targets.memory import LOGIT_BYTES, RowLimit, activation_bytes
from leakage_tasks.targets.memory_budget import MemoryBudget
from leakage_tasks.targets.noise import NO_NOISE, Noise
from leakage_tasks.targets.pass_size import SPREAD, PassSize, is_spread
from leakage_tasks.targets.rounding import in_half_precision
from leakage_tasks.targets.tokens.vocabulary import token_pieces

ANY_LENGTH = 2048
"""Maximum number of tokens for a model without a limit of its own."""


class TextModel:
    """A language model with its tokenizer.

    ``batch_size`` counts texts of ``max_length`` tokens, by default the model's context length. ``autocast`` is the
    type of the harness's mixed precision, if enabled. ``cached=False`` reads every text again from its first token; the
    cached pass is verified against it.
    """

    noise: Any
    """Rounding noise of the model's costs, a :class:`Noise`."""

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
        # XLNet's configuration returns −1 if there is no limit.
        positions = getattr(model.config, "max_position_embeddings", None) or 0
        self.max_length = max_length or (positions if positions > 0 else ANY_LENGTH)
        self.batch_size, self.autocast, self.cached = batch_size, autocast, cached
        self._adapted = True
        self._recorded: dict[bool, Noise] = {}
        spread = is_spread(model)
        self.limit, self.whole_texts, self.states = RowLimit(), RowLimit(), MemoryBudget(self.device, spread)
        self.most_padding = PADDING_ON_CPU if self.device.type == "cpu" else math.inf
        """Maximum padding as a share of a batch's own tokens, for batches of whole texts."""
        self.pass_size = PassSize(SPREAD if spread else None)
        text_config = model.config.get_text_config()
        self.vocabulary = int(text_config.vocab_size)
        """Number of token ids that the model knows."""
        # Read once, since reading a configuration's attribute takes longer than computing with it.
        self.activation_bytes = [activation_bytes(text_config, length) for length in (0, 1)]
        self.spelling = cache(lambda: token_pieces(tokenizer, self.vocabulary))
        """The text that each token adds, computed once."""
        self.embedded = EmbeddedTokens(model, tokenizer)

    def texts_that_fit(self, length: int) -> int:
        """Return the number of texts of ``length`` tokens, with logits at each, that fit in memory; at least 1."""
        return max(1, self.states.batch // (LOGIT_BYTES * self.vocabulary * max(length, 1)))

    @property
    def recorded_noise(self) -> Noise:
        """The noise stated in findings: zero in float32; in 16 bits the noise measured on fillings, if available."""
        known = self._recorded.get(self._adapted)
        if known is None:
            known = self.noise if in_half_precision(self.model, self.autocast) else NO_NOISE
        return known

    @recorded_noise.setter
    def recorded_noise(self, noise: Noise) -> None:
        self._recorded[self._adapted] = noise

    @contextlib.contextmanager
    def inference(self) -> Iterator[None]:
        """Compute without gradients, in full float32, and in the harness's mixed precision if it is enabled."""
        precision = torch.autocast(self.device.type, dtype=self.autocast, enabled=self.autocast is not None)
        with torch.inference_mode(), full_float32(self.device), precision:
            yield

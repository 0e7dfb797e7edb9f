"""Language models, and the forward calls of a causal one: over whole texts, and over more tokens after a cache."""

from __future__ import annotations

import contextlib
import copy
import inspect
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.batches import PADDING_ON_CPU
from leakage_tasks.targets.causal.engine import Engine
from leakage_tasks.targets.causal.first_passes import IN_CACHE, in_float32
from leakage_tasks.targets.causal.windows import windows_of
from leakage_tasks.targets.devices import HostCopy, in_bits, on_device
from leakage_tasks.targets.embedded_tokens import EmbeddedTokens
from leakage_tasks.targets.full_float32 import full_float32
from leakage_tasks.targets.memory import MemoryBudget, activation_bytes
from leakage_tasks.targets.noise import NO_NOISE, Noise
from leakage_tasks.targets.pass_rows import SPREAD, PassRows, PassSize, is_spread
from leakage_tasks.targets.rounding import in_half_precision, measure, text_rows
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
        self.states = MemoryBudget(self.device, spread)
        self.most_padding = PADDING_ON_CPU if self.device.type == "cpu" else math.inf
        """Maximum padding as a share of a batch's own tokens, for batches of whole texts."""
        text_config = model.config.get_text_config()
        self.vocabulary = int(text_config.vocab_size)
        """Number of token ids that the model knows."""
        # Read once, since reading a configuration's attribute takes longer than computing with it.
        activations = activation_bytes(text_config, 0), activation_bytes(text_config, 1)
        sizes = batch_size, self.max_length, self.vocabulary, activations
        self.pass_rows = PassRows(self.device, *sizes, self.states, PassSize(SPREAD if spread else None))
        self.spelling = cache(lambda: token_pieces(tokenizer, self.vocabulary))
        """The text that each token adds, computed once."""
        self.embedded = EmbeddedTokens(model, tokenizer)

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


class CausalReader(TextModel):
    """A causal language model with a KV cache or another state.

    ``settings`` are the arguments of :class:`TextModel`.
    """

    def __init__(self, model: Any, tokenizer: Any, **settings: Any) -> None:
        super().__init__(model, tokenizer, **settings)
        self._engines: dict[bool, Engine] = {}
        self._noises: dict[bool, Noise] = {}
        self._cache_name = "past_key_values"
        self._columns = np.zeros(0, dtype=np.int64), torch.zeros(0, dtype=torch.int64)
        """The tokens whose costs were computed last, and their tensor."""
        self.stepper = model
        """The module that continues a cache."""
        # The encoder of a translation model has a cache of its own.
        self.windows = () if getattr(model.config, "is_encoder_decoder", False) else windows_of(model.config)
        """Sliding window of each layer, see :func:`~leakage_tasks.targets.causal.windows.windows_of`."""
        prompt = getattr(model, "active_peft_config", None)
        if prompt is not None and prompt.is_prompt_learning:
            self.windows = ()
            # A soft prompt is prepended on every call: it is read once, and the base model continues after it.
            self.stepper = model.get_base_model()
            room = getattr(model.config, "max_position_embeddings", self.max_length) - prompt.num_virtual_tokens
            self.max_length = min(self.max_length, room)
            self.pass_rows = replace(self.pass_rows, max_length=self.max_length)
        self._keeps_logits = "logits_to_keep" in inspect.signature(self.stepper.forward).parameters

    def before_fine_tuning(self) -> Self | None:
        """Return the model without its adapter, sharing its weights, or None if it has no adapter to disable."""
        if not hasattr(self.model, "disable_adapter"):
            return None
        plain = copy.copy(self)
        plain._adapted = False
        return plain

    @contextlib.contextmanager
    def inference(self) -> Iterator[None]:
        with super().inference(), contextlib.nullcontext() if self._adapted else self.model.disable_adapter():
            yield

    @property
    def engine(self) -> Engine:
        """The texts that this model has read, with or without its adapter."""
        if self._adapted not in self._engines:
            self._engines[self._adapted] = Engine(self)
        return self._engines[self._adapted]

    @property
    def source(self) -> Any:
        """Additional input of all texts, such as a translation model's source sentence, or None."""
        return None

    @property
    def noise(self) -> Noise:
        """Rounding noise of this model's costs, measured on first use."""
        if self._adapted not in self._noises:
            rows = text_rows(self.plain_rows, self.vocabulary, self.max_length).to(self.device)
            with self.inference():
                self._noises[self._adapted] = measure(self.model, self._plain_logits, rows, self.vocabulary)
        return self._noises[self._adapted]

    def plain_rows(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of texts without a context, after the prefix token."""
        raise NotImplementedError

    def _plain_logits(self, tokens: Tensor, keep: int) -> Tensor:
        return self.read(tokens, keep, [self.source] * len(tokens))

    def on_device(self, numbers: IntArray) -> Tensor:
        """Return integers as a tensor on the model's device."""
        return on_device(numbers, self.device)

    def read(self, tokens: Tensor, keep: int, sources: Sequence[Any] = (None,)) -> Tensor:
        """Read texts ``[n, P]`` from their first token, after the soft prompt if there is one, without a cache.

        Returns logits in float32 ``[n, keep, V]`` of the last ``keep`` tokens. ``sources`` are the additional input of
        each text.
        """
        keeping = {"logits_to_keep": keep} if self._keeps_logits else {}
        out = self.model(input_ids=tokens, use_cache=False, **keeping, **_looked_at(sources))
        return out.logits[:, -keep:].float()

    def read_first(self, tokens: Tensor, sources: Sequence[Any], keep: int | None = None) -> tuple[Tensor, Any]:
        """Read texts ``[n, P]`` from their first token and return logits ``[n, keep or P, V]`` and the model's cache.

        The logits have the model's data type. The cache is None for ``cached=False``.
        """
        # A cache of its own drops the tokens outside a sliding window; this one keeps every token.
        more: dict[str, Any] = {self._cache_name: DynamicCache()} if self.cached and self.windows else {}
        more |= {"logits_to_keep": keep} if keep and self._keeps_logits else {}
        out = self.model(input_ids=tokens, use_cache=self.cached, **more, **_looked_at(sources))
        return out.logits[:, -(keep or tokens.shape[1]) :], self._cache_of(out) if self.cached else None

    def read_on(self, cache: Any, tokens: Tensor, sources: Sequence[Any] = (None,), **more: Any) -> tuple[Tensor, Any]:
        """Read ``tokens`` ``[n, k]`` after ``cache`` and return logits ``[n, k, V]`` and the new cache.

        ``more`` are further arguments of the forward pass.
        """
        arguments = {self._cache_name: cache, **_looked_at(sources), **more}
        out = self.stepper(input_ids=tokens, use_cache=True, **arguments)
        return in_float32(out.logits), self._cache_of(out)

    def costs(self, logits: Tensor, columns: IntArray) -> FloatArray:
        """Return costs in bits of ``columns``, shape ``[n, …, A]``, from logits ``[n, …, V]``."""
        return in_bits(self.log_p(logits, columns))

    def log_p(self, logits: Tensor, columns: IntArray) -> HostCopy:
        """Return the log-probabilities of ``columns``, shape ``[n, …, A]``, from logits ``[n, …, V]``."""
        if self._columns[0] is not columns or self._columns[1].device != logits.device:
            self._columns = columns, on_device(columns, logits.device)
        wanted = self._columns[1]
        # A CPU is faster on rows that fit in its cache; other devices need few, large calls.
        size = max(1, IN_CACHE // logits.shape[-1]) if logits.device.type == "cpu" else max(1, len(logits))
        rows = logits.split(size) if len(logits) > size else (logits,)
        parts = [in_float32(part).log_softmax(-1).index_select(-1, wanted) for part in rows]
        return HostCopy(parts[0] if len(parts) == 1 else torch.cat(parts))

    def _cache_of(self, out: Any) -> Any:
        """Return the model's cache; recurrent models use other names for it."""
        for name in ("past_key_values", "cache_params", "state"):
            if getattr(out, name, None) is not None:
                self._cache_name = name
                return getattr(out, name)
        raise TargetError("the model returns no cache to continue from")


def _looked_at(sources: Sequence[Any]) -> dict[str, Any]:
    """Return the forward pass's arguments for the additional input of each row."""
    return {} if sources[0] is None else {"sources": sources}

"""The decoder of a translation model, to be searched as a causal model is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from leakage_tasks.targets.causal.cache import RowState, of_rows


class Decoder:
    """An encoder-decoder model after one source sentence, to be called as a causal model is.

    The encoder reads the source once, at the first call; what cross-attention looks at is kept once too. A cache is
    that of self-attention alone, so that its rows are picked and shared as any causal model's are. Tokens of ``before``
    are read ahead of every text that is read from its beginning, and their logits left out.
    """

    def __init__(self, model: Any, source: Sequence[int], device: torch.device, before: Sequence[int] = ()) -> None:
        self.config = model.config
        self.device = device
        self._model = model
        self._source = source
        self._before = torch.tensor([list(before)], dtype=torch.long, device=device)
        self._across: RowState | None = None

    @cached_property
    def _encoded(self) -> Any:
        """What the encoder makes of the source, of its own output's kind: hidden states ``[1, S, d]``."""
        ids = torch.tensor([list(self._source)], device=self.device)
        return self._model.get_encoder()(input_ids=ids, attention_mask=torch.ones_like(ids))

    def modules(self) -> Iterator[torch.nn.Module]:
        """The whole model's parts, which say in what precision it computes."""
        return iter(self._model.modules())

    def __call__(self, input_ids: Tensor, use_cache: bool = False, past_key_values: Any = None) -> Any:
        return self.forward(input_ids, use_cache, past_key_values)

    def forward(self, input_ids: Tensor, use_cache: bool = False, past_key_values: Any = None) -> Any:
        """Logits ``[n, k, V]`` after tokens ``[n, k]`` that follow what the cache holds, and the cache after them."""
        from transformers.modeling_outputs import CausalLMOutputWithPast

        rows, read = len(input_ids), input_ids.shape[1]
        if past_key_values is None:
            input_ids = torch.cat([self._before.expand(rows, -1), input_ids], dim=1)
        out = self._model(
            encoder_outputs=type(self._encoded)(last_hidden_state=self._encoded.last_hidden_state.expand(rows, -1, -1)),
            decoder_input_ids=input_ids,
            past_key_values=None if past_key_values is None else self._both(past_key_values, rows),
            use_cache=use_cache,
        )
        logits = out.logits[:, -read:]
        if not use_cache:
            return CausalLMOutputWithPast(logits=logits)
        cache = out.past_key_values
        if self._across is None:
            across = of_rows(cache.cross_attention_cache)
            # The same for all rows, of which the first pass may have had several.
            self._across = replace(across, tensors=[tensor[:1].clone() for tensor in across.tensors])
        return CausalLMOutputWithPast(logits=logits, past_key_values=cache.self_attention_cache)

    def _both(self, cache: Any, rows: int) -> Any:
        """The cache of self-attention with that of cross-attention, which is the same for all rows."""
        from transformers import EncoderDecoderCache

        across = self._across
        assert across is not None
        shared = [tensor.expand(rows, *tensor.shape[1:]) for tensor in across.tensors]
        return EncoderDecoderCache(cache, RowState(across.shell, shared).rebuild())

"""The decoder of a translation model, with the interface of a causal model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import IntArray
from leakage_tasks.core.log import log
from leakage_tasks.targets.batches import padded
from leakage_tasks.targets.causal.cache import filled, hollow, tensors_of
from leakage_tasks.targets.devices import PerDevice, moved, on_device
from leakage_tasks.targets.memory import out_of_memory
from leakage_tasks.targets.noise import Noise, warn_of_slower
from leakage_tasks.targets.rounding import same_logits
from leakage_tasks.targets.seq2seq.positions import at_positions
from leakage_tasks.targets.seq2seq.source import NOT_READ, SourceSentence, SourceTable, mask_of

Sources = Sequence[SourceSentence]
"""The source sentence of each row of a pass."""


class Decoder:
    """An encoder-decoder model with the interface of a causal model; rows may have different source sentences.

    The cross-attention cache of a source is computed once and kept as long as the source is referenced. The returned
    cache covers self-attention alone, so its rows are selected and shared like in any causal model. Tokens of
    ``before`` are read ahead of every text that is read from its beginning, and their logits are left out.

    Sources of several lengths are padded to one length and masked. On first use this is compared with passes over one
    source at a time; if the logits differ, only sources of equal length share a pass.
    """

    def __init__(
        self, model: Any, device: torch.device, noise: Callable[[], Noise], before: Sequence[int] = ()
    ) -> None:
        self.config = model.config
        self.device = device
        self._model = model
        self._before = torch.tensor([list(before)], dtype=torch.long, device=device)
        self._noise = noise
        self._pads: bool | None = None
        self._sources: WeakValueDictionary[tuple[int, ...], SourceSentence] = WeakValueDictionary()
        self._table = SourceTable()

    def source(self, tokens: Sequence[int]) -> SourceSentence:
        """Return the source sentence of these tokens, shared by all callers so that it is read only once."""
        sentence = self._sources.get(tuple(tokens))
        if sentence is None:
            sentence = self._sources[tuple(tokens)] = SourceSentence(tuple(tokens))
        return sentence

    def modules(self) -> Iterator[torch.nn.Module]:
        """Return the whole model's modules, which determine the precision of the computation."""
        return iter(self._model.modules())

    def __call__(self, input_ids: Tensor, **arguments: Any) -> Any:
        return self.forward(input_ids, **arguments)

    def forward(
        self,
        input_ids: Tensor,
        sources: Sources,
        use_cache: bool = False,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Any:
        """Return logits ``[n, k, V]`` after tokens ``[n, k]`` that follow the cache, and the new cache.

        ``attention_mask`` and ``position_ids`` are for rows of different lengths, padded on the left in the cache.
        """
        if past_key_values is not None:
            with at_positions(self._model, position_ids):
                return self._go_on(input_ids, sources, past_key_values, attention_mask)
        input_ids = torch.cat([self._before.expand(len(input_ids), -1), input_ids], dim=1)
        out = self._from_beginning(input_ids, sources, use_cache)
        out.logits = out.logits[:, self._before.shape[1] :]
        return out

    def _go_on(self, input_ids: Tensor, sources: Sources, cache: Any, mask: Tensor | None) -> Any:
        from transformers import EncoderDecoderCache
        from transformers.modeling_outputs import MoEModelOutput

        places = np.fromiter((source.place for source in sources), dtype=np.int64)
        longest = max(source.length for source in sources)
        # The decoder takes the encoder's output from the cache and only asks for its size. Models with experts also
        # look for the router's fields.
        size = torch.zeros(1, 1, 1, device=self.device).expand(len(input_ids), longest, self._width)
        out = self._model(
            encoder_outputs=MoEModelOutput(last_hidden_state=size),
            attention_mask=mask_of(sources, self.device),
            decoder_input_ids=input_ids,
            decoder_attention_mask=mask,
            past_key_values=EncoderDecoderCache(cache, self._table.cache(places, longest)),
            use_cache=True,
        )
        return _causal(out, out.past_key_values.self_attention_cache)

    def _first(self, input_ids: Tensor, sources: Sources, use_cache: bool) -> Any:
        """Read texts from their first token, after each distinct source was read."""
        distinct = list(dict.fromkeys(sources))
        numbers = {source: number for number, source in enumerate(distinct)}
        of_row = np.fromiter((numbers[source] for source in sources), dtype=np.int64)
        ids, mask = (moved(part, self.device) for part in padded([source.tokens for source in distinct], 0))
        encoded = self._model.get_encoder()(input_ids=ids, attention_mask=mask)
        self._width = encoded.last_hidden_state.shape[-1]
        states = encoded.last_hidden_state
        encoded.last_hidden_state = states.index_select(0, on_device(of_row, states.device))
        out = self._model(
            encoder_outputs=encoded,
            attention_mask=mask_of(sources, self.device),
            decoder_input_ids=input_ids,
            use_cache=use_cache,
        )
        if not use_cache:
            return _causal(out, None)
        self._store(distinct, of_row, out.past_key_values.cross_attention_cache)
        return _causal(out, out.past_key_values.self_attention_cache)

    def _store(self, distinct: Sources, of_row: IntArray, cache: Any) -> None:
        """Store the cross-attention cache of sources that are not stored yet, from the first row of each."""
        left = [number for number, source in enumerate(distinct) if source.place == NOT_READ]
        if left:
            first = PerDevice(np.array([int(np.argmax(of_row == number)) for number in left]))
            chosen = [tensor.index_select(0, first.on(tensor.device)) for tensor in tensors_of(cache)]
            self._table.store([distinct[number] for number in left], filled(hollow(cache), chosen))

    # -- sources of several lengths ---------------------------------------------------------------------------

    def _from_beginning(self, input_ids: Tensor, sources: Sources, use_cache: bool) -> Any:
        """Read whole texts in one pass if their sources may be padded, else in one pass per source length."""
        lengths = np.array([source.length for source in sources])
        if (lengths == lengths[0]).all():
            return self._first(input_ids, sources, use_cache)
        if self._pads is None:
            self._pads = self._try_padding(input_ids, sources, lengths)
        if self._pads:
            return self._first(input_ids, sources, use_cache)
        groups = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
        outs = [
            self._first(input_ids[torch.from_numpy(group).to(self.device)], [sources[int(n)] for n in group], use_cache)
            for group in groups
        ]
        back = torch.from_numpy(np.argsort(np.concatenate(groups))).to(self.device)
        out = outs[0]
        out.logits = torch.cat([part.logits for part in outs])[back]
        if use_cache:
            columns = zip(*(tensors_of(part.past_key_values) for part in outs), strict=True)
            shell = hollow(out.past_key_values)
            out.past_key_values = filled(shell, [torch.cat(column)[back.to(column[0].device)] for column in columns])
        return out

    def _try_padding(self, input_ids: Tensor, sources: Sources, lengths: IntArray) -> bool:
        """Return True if a pass over sources of all lengths equals passes over the shortest and the longest alone."""
        ends = [int(lengths.argmin()), int(lengths.argmax())]

        def alone() -> Tensor:
            return torch.cat([self._first(input_ids[n : n + 1], [sources[n]], False).logits for n in ends])

        try:
            fast = self._first(input_ids, sources, False).logits[ends]
            plain = alone()
        except Exception as error:
            if out_of_memory(error):
                raise
            log.debug("sources of different lengths cannot share a forward pass: %s", type(error).__name__)
        else:
            if same_logits(fast, plain, self._noise, self._model, alone):
                return True
        number = len(np.unique(lengths))
        warn_of_slower(self._model, "source sentences of different lengths cannot share a forward pass", number)
        return False


def _causal(out: Any, cache: Any) -> Any:
    from transformers.modeling_outputs import CausalLMOutputWithPast

    return CausalLMOutputWithPast(logits=out.logits, past_key_values=cache)

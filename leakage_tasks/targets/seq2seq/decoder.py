"""The decoder of a translation model, with the interface of a causal model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from leakage_tasks.core.log import log
from leakage_tasks.targets.batches import padded
from leakage_tasks.targets.causal.cache import RowState, join, of_rows
from leakage_tasks.targets.causal.passes import how_far_apart
from leakage_tasks.targets.causal.picked import pick
from leakage_tasks.targets.memory import out_of_memory
from leakage_tasks.targets.noise import Noise, warn_of_slower
from leakage_tasks.targets.rounding import SAME_NATS, explains
from leakage_tasks.targets.seq2seq.positions import at_positions
from leakage_tasks.targets.seq2seq.source import (
    Sources,
    SourceSentence,
    encoder_outputs,
    keys_and_values,
    mask_of,
    spread,
)


class Decoder:
    """An encoder-decoder model with the interface of a causal model; rows may have different source sentences.

    The encoder's output and the cross-attention cache of a source are computed once and kept as long as the source is
    referenced. The returned cache covers self-attention alone, so its rows are selected and shared like in any causal
    model. Tokens of ``before`` are read ahead of every text that is read from its beginning, and their logits are left
    out.

    Sources of several lengths are padded to one length and masked. On first use this is verified against unbatched
    passes; if the logits differ, only sources of equal length share a pass.
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
                return self._pass(input_ids, sources, use_cache, past_key_values, attention_mask)
        input_ids = torch.cat([self._before.expand(len(input_ids), -1), input_ids], dim=1)
        out = self._from_beginning(input_ids, sources, use_cache)
        out.logits = out.logits[:, self._before.shape[1] :]
        return out

    def _pass(
        self, input_ids: Tensor, sources: Sources, use_cache: bool, cache: Any = None, mask: Tensor | None = None
    ) -> Any:
        from transformers.modeling_outputs import CausalLMOutputWithPast

        self._read([source for source, _ in sources])
        out = self._model(
            encoder_outputs=encoder_outputs(sources),
            attention_mask=mask_of(sources, self.device),
            decoder_input_ids=input_ids,
            decoder_attention_mask=mask,
            past_key_values=None if cache is None else keys_and_values(cache, sources),
            use_cache=use_cache,
        )
        if not use_cache:
            return CausalLMOutputWithPast(logits=out.logits)
        spread(sources, out.past_key_values.cross_attention_cache)
        return CausalLMOutputWithPast(logits=out.logits, past_key_values=out.past_key_values.self_attention_cache)

    def _read(self, sources: Sequence[SourceSentence]) -> None:
        """Run the encoder on all sources that have not been read yet."""
        left = list(dict.fromkeys(source for source in sources if source.read is None))
        if not left:
            return
        ids, mask = (part.to(self.device) for part in padded([source.tokens for source in left], 0))
        out = self._model.get_encoder()(input_ids=ids, attention_mask=mask)
        for index, source in enumerate(left):
            hidden = out.last_hidden_state[index : index + 1, : source.length]
            source.read, source.output = hidden if len(left) == 1 else hidden.clone(), type(out)

    # -- sources of several lengths ---------------------------------------------------------------------------

    def _from_beginning(self, input_ids: Tensor, sources: Sources, use_cache: bool) -> Any:
        """Read whole texts in one pass if their sources may be padded, else in one pass per source length."""
        if len({source.length for source, _ in sources}) == 1:
            return self._pass(input_ids, sources, use_cache)
        if self._pads is not False:
            try:
                out = self._pass(input_ids, sources, use_cache)
                self._pads = self._pads or self._agrees(out.logits, input_ids, sources)
            except Exception as error:
                if self._pads or out_of_memory(error):
                    raise
                log.debug("sources of different lengths cannot share a forward pass: %s", error)
                self._pads = False
            if self._pads:
                return out
            lengths = len({source.length for source, _ in sources})
            warn_of_slower(self._model, "source sentences of different lengths cannot share a forward pass", lengths)
            for source, _ in sources:
                source.forget()
        return self._by_length(input_ids, sources, use_cache)

    def _agrees(self, logits: Tensor, input_ids: Tensor, sources: Sources) -> bool:
        """Return True if unbatched passes for the shortest and the longest source give these ``logits``."""
        rows = input_ids.split([count for _, count in sources])
        parts = logits.split([count for _, count in sources])
        ends = [end(range(len(sources)), key=lambda index: sources[index][0].length) for end in (min, max)]
        alone = [
            self._pass(rows[index], [(SourceSentence(sources[index][0].tokens), len(rows[index]))], False)
            for index in ends
        ]
        together, plain = [parts[index] for index in ends], [out.logits for out in alone]
        apart = how_far_apart(together, plain)
        log.debug("sources of several lengths in one pass are off by %s nats", apart)
        return apart <= SAME_NATS or explains(self._noise(), together, plain)

    def _by_length(self, input_ids: Tensor, sources: Sources, use_cache: bool) -> Any:
        rows = torch.arange(len(input_ids), device=self.device).split([count for _, count in sources])
        chosen, outs = [], []
        for length in sorted({source.length for source, _ in sources}):
            same = [index for index, (source, _) in enumerate(sources) if source.length == length]
            chosen.append(torch.cat([rows[number] for number in same]))
            outs.append(self._pass(input_ids[chosen[-1]], [sources[number] for number in same], use_cache))
        back = torch.argsort(torch.cat(chosen))
        out = outs[0]
        out.logits = torch.cat([output.logits for output in outs])[back]
        if use_cache:
            whole: RowState = join([of_rows(output.past_key_values) for output in outs])
            out.past_key_values = pick([whole], torch.zeros_like(back), back).rebuild()
        return out

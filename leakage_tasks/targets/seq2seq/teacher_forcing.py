"""Translation models the plain way: each target sentence by one forward pass of its own over source and target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.causal.target import inference
from leakage_tasks.targets.seq2seq.target import FilledSource, Seq2SeqTarget, source_by_text


class TeacherForced:
    """An encoder-decoder model by plain forward passes with the target before its eyes; implements ``ReadsSource``.

    No cache, no batch, no padding, no encoder output that is kept: what a fast way is held against where the harness
    itself does not score as ``generate`` writes. It takes from ``family`` how texts become tokens and what the decoder
    begins with, nothing else.
    """

    def __init__(self, family: Seq2SeqTarget) -> None:
        self._family = family

    def given(self, canary: Canary) -> TeacherForcedScorer:
        """See :class:`~leakage_tasks.targets.protocols.ReadsSource`."""
        return TeacherForcedScorer(self._family, source_by_text(canary))

    def bits(self, source: Sequence[int], target: Sequence[int]) -> float:
        """−log2 P(target | source) of token ids, after what the decoder begins with."""
        family = self._family
        read = torch.tensor([list(source)], device=family.device)
        written = torch.tensor([[*family.opening, *target]], device=family.device)
        with inference(family.device, family.autocast):
            out = family.model(
                input_ids=read,
                attention_mask=torch.ones_like(read),
                decoder_input_ids=written[:, :-1],
                use_cache=False,
            )
        own = out.logits[0, -len(target) :].float().log_softmax(-1).gather(-1, written[0, -len(target) :, None])
        return -float(own.cpu().double().sum()) / LN2


class TeacherForcedScorer(FilledSource):
    """Such a model with the source sentence of each text known; implements ``ScoresSequences``."""

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """See :class:`~leakage_tasks.targets.protocols.ScoresSequences`. Raises TargetError for a long one."""
        plain = TeacherForced(self._family)
        found = np.zeros(len(texts))
        for place, (text, target) in enumerate(zip(texts, self._family.encode(texts), strict=True)):
            if len(target) > self.max_length:
                raise TargetError(
                    f"a text of {len(target)} tokens does not fit the model's {self.max_length}: shorten it"
                )
            found[place] = plain.bits(self._family.encode_source(self._source(text)), target)
        return found

"""A harness model as a target of suffix extraction: prefixes in, draws and costs out, on token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.suffix.causal import SuffixSampler
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.drawing import draw_suffixes
from leakage_tasks.targets.suffix.sampled_suffixes import SampledSuffixes, SuffixCosts
from leakage_tasks.targets.suffix.scores import costs_after, score_suffixes
from leakage_tasks.targets.suffix.search import beam_search


class CausalSuffixes:
    """Suffixes from a causal model, without a way through text.

    Implements :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`. Prefixes are read as they are, after ``before``.
    """

    totals_only = False

    def __init__(self, target: CausalTarget, before: Sequence[int] = ()) -> None:
        self.sampler = SuffixSampler(target, before)
        self.tokenizer = target.tokenizer
        self.vocabulary: int | None = self.sampler.vocabulary
        self.max_length: int | None = self.sampler.max_length

    def draw(
        self, prefixes: Sequence[Sequence[int]], uniforms: FloatArray, scheme: DecodingConfig
    ) -> list[SampledSuffixes]:
        """See :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`."""
        if scheme.decoding == "sample":
            return draw_suffixes(self.sampler, prefixes, uniforms, scheme)
        return beam_search(self.sampler, prefixes, uniforms.shape[2], scheme.width)

    def score(
        self, prefixes: Sequence[Sequence[int]], suffixes: Sequence[Sequence[int]], scheme: DecodingConfig
    ) -> list[SuffixCosts]:
        """See :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`."""
        return score_suffixes(self.sampler, prefixes, suffixes, scheme)

    def costs_after(self, prefix: Sequence[int], continuations: Sequence[Sequence[int]]) -> list[FloatArray]:
        """See :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`."""
        return costs_after(self.sampler, prefix, continuations)

    def unfit(self, pair: Pair) -> str | None:
        """See :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`; token ids need no way through text."""
        return None

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Texts of token rows, special tokens and all, spaces as they are."""
        decoded: list[str] = self.tokenizer.batch_decode(
            [list(map(int, row)) for row in rows], skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return decoded

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of texts, without special ones."""
        return self.tokenizer(list(texts), add_special_tokens=False)["input_ids"] if texts else []


def causal_suffixes(lm: Any, target: CausalTarget) -> CausalSuffixes:
    """The target for an ``HFLM`` whose fast target is ``target``: a BOS token goes first where the harness adds one."""
    bos, wanted = target.tokenizer.bos_token_id, lm.add_bos_token
    if wanted is None:
        wanted = target.tokenizer("a")["input_ids"][:1] == [bos]
    return CausalSuffixes(target, [bos] if wanted and bos is not None else [])

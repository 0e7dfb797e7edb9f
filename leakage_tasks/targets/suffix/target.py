"""Causal models as targets of suffix extraction: prefixes in, draws and costs out, on token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import log
from leakage_tasks.models.loading import read_model, read_tokenizer
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.noise import agree
from leakage_tasks.targets.suffix.causal import SuffixSampler
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.drawing import draw_suffixes
from leakage_tasks.targets.suffix.sampled_suffixes import SampledSuffixes, SuffixCosts
from leakage_tasks.targets.suffix.scores import costs_after, score_suffixes
from leakage_tasks.targets.suffix.search import beam_search
from leakage_tasks.targets.token_ids import token_ids

DRAW_BYTES = 48
"""Of a token of a draw that is like no other: its random number, itself, and four figures."""
TEXT_BYTES = 1500
"""About what such a draw takes besides, while its text is read in lower case."""


class CausalSuffixes:
    """Suffixes from a causal model, without a way through text.

    Implements :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`. Prefixes are read as they are, after ``before``.
    """

    totals_only = only_writes = False

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

    def costs_after(
        self, prefixes: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]
    ) -> list[FloatArray]:
        """See :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`."""
        return costs_after(self.sampler, prefixes, continuations)

    def pairs_at_once(self, pair: Pair, samples: int) -> int:
        """See :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`: those whose prefixes fill a pass.

        Fewer where half of the memory for states does not hold the draws of all, should none be like another.
        """
        drawn = samples * (DRAW_BYTES * len(pair.suffix) + TEXT_BYTES)
        fit = self.sampler.target.states.most // (2 * max(drawn, 1))
        return max(1, min(self.sampler.bound(pair.prefix, len(pair.suffix)), fit))

    def unfit(self, pair: Pair) -> str | None:
        """See :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`; token ids need no way through text."""
        return None

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Texts of token rows, special tokens and all, spaces as they are."""
        return self.tokenizer.batch_decode(
            [list(map(int, row)) for row in rows], skip_special_tokens=False, clean_up_tokenization_spaces=False
        )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of texts, without special ones."""
        return token_ids(self.tokenizer, texts, special=False)


def causal_suffixes(lm: Any, target: CausalTarget) -> CausalSuffixes:
    """The target for an ``HFLM`` whose fast target is ``target``: a BOS token goes first where the harness adds one."""
    bos, wanted = target.tokenizer.bos_token_id, lm.add_bos_token
    if wanted is None:
        wanted = target.tokenizer("a")["input_ids"][:1] == [bos]
    return CausalSuffixes(target, [bos] if wanted and bos is not None else [])


def load_causal_target(
    name: str,
    option: str,
    device: torch.device | str = "cpu",
    batch_size: int | None = None,
    dtype: torch.dtype | None = None,
) -> CausalTarget:
    """The causal model and tokenizer ``name``, without remote code.

    ``option`` is what the user gave it by, for messages. Raises TargetError for one that cannot be loaded.
    """
    from transformers import AutoModelForCausalLM

    def failure(reason: str) -> TargetError:
        return TargetError(f"{option}: cannot be loaded ({reason}): give a causal model's folder or hub name")

    precision: Any = {"dtype": dtype} if dtype else {}
    model, missing = read_model(AutoModelForCausalLM, name, failure=failure, **precision)
    tokenizer = read_tokenizer(name, bare=True, failure=failure)
    if missing:
        raise TargetError(f"{option}: no trained causal language model ({missing[0]} is not in its weights): give one")
    model.to(device).eval()
    target, uncached = (
        CausalTarget(model, tokenizer, device=device, batch_size=batch_size, cached=cached) for cached in (True, False)
    )
    if _agree(target, uncached):
        return target
    log.warning(
        "%s: its cache steps aside, since it does not continue a text as a new pass does: each step reads every text "
        "from its first token, up to as many times as slowly as a text has tokens",
        option,
    )
    return uncached


def _agree(target: CausalTarget, uncached: CausalTarget) -> bool:
    """Whether the model's cache continues a text as reading it anew does."""
    prefix, rest = list(range(1, 9)), [[9, 10, 11, 12], [12, 9]]
    try:
        found = [
            costs_after(SuffixSampler(each), [prefix] * len(rest), rest, whole=False) for each in (target, uncached)
        ]
    except Exception:  # a cache that cannot be continued fails in many ways
        return False
    ours, plain = (np.array([costs.sum() for costs in each]) for each in found)
    return agree(uncached, ours, plain, [len(tokens) for tokens in rest])

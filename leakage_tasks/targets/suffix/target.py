"""Causal models as targets of suffix extraction: draws and costs of suffixes after prefixes, on token ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import torch

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import log
from leakage_tasks.models.loading import read_model, read_tokenizer
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.causal.later_tokens import check_later_tokens
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.noise import agree
from leakage_tasks.targets.suffix.causal import SuffixSampler
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.drawing import draw_suffixes
from leakage_tasks.targets.suffix.near import near_bounds
from leakage_tasks.targets.suffix.sampled_suffixes import NearBounds, SampledSuffixes, SuffixCosts
from leakage_tasks.targets.suffix.scores import costs_after, score_suffixes
from leakage_tasks.targets.suffix.search import beam_search
from leakage_tasks.targets.token_ids import token_ids

DRAW_BYTES = 48
"""Bytes per token of a draw without shared rows: its random number, the token, and four figures."""
TEXT_BYTES = 1500
"""Approximate additional bytes of such a draw while its text is read in lower case."""
TEST_TOKENS = list(range(1, 13))
"""Tokens on which a model is tested when it is loaded."""


class CausalSuffixes:
    """Suffixes from a causal model, on token ids without conversion to text.

    Implements :class:`~leakage_tasks.targets.protocols.DrawsSuffixes` and
    :class:`~leakage_tasks.targets.protocols.BoundsNear`. Prefixes are read unchanged, after ``before``.
    """

    totals_only = only_writes = False

    def __init__(self, target: CausalTarget, before: Sequence[int] = ()) -> None:
        self.sampler = SuffixSampler(target, before)
        self.on_drawn: Callable[[float], None] | None = None
        self.tokenizer = target.tokenizer
        self.vocabulary: int | None = self.sampler.vocabulary
        self.max_length: int | None = self.sampler.max_length

    def draw(
        self,
        prefixes: Sequence[Sequence[int]],
        uniforms: FloatArray,
        scheme: DecodingConfig,
        ends: Collection[int] = (),
    ) -> list[SampledSuffixes]:
        """Draw suffixes; see :func:`~leakage_tasks.targets.suffix.drawing.draw_suffixes`. A search ignores ``ends``."""
        if scheme.decoding == "sample":
            return draw_suffixes(self.sampler, prefixes, uniforms, scheme, ends, self.on_drawn)
        return beam_search(self.sampler, prefixes, uniforms.shape[2], scheme.width, self.on_drawn)

    def score(
        self, prefixes: Sequence[Sequence[int]], suffixes: Sequence[Sequence[int]], scheme: DecodingConfig
    ) -> list[SuffixCosts]:
        return score_suffixes(self.sampler, prefixes, suffixes, scheme)

    def near(
        self,
        prefixes: Sequence[Sequence[int]],
        suffixes: Sequence[Sequence[int]],
        scheme: DecodingConfig,
        edits: int,
        width: int,
    ) -> list[NearBounds]:
        return near_bounds(self.sampler, prefixes, suffixes, scheme, edits, width)

    def costs_after(
        self, prefixes: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]
    ) -> list[FloatArray]:
        return costs_after(self.sampler, prefixes, continuations)

    def pairs_at_once(self, pair: Pair, samples: int) -> int:
        """Return the number of pairs whose prefixes fill a pass.

        It is smaller if half of the state memory cannot hold the draws of all pairs, in the worst case that all draws
        differ.
        """
        drawn = samples * (DRAW_BYTES * len(pair.suffix) + TEXT_BYTES)
        fit = self.sampler.target.states.most // (2 * max(drawn, 1))
        return max(1, min(self.sampler.bound(pair.prefix, len(pair.suffix)), fit))

    def unfit(self, pair: Pair) -> str | None:
        """Return None: token ids need no conversion to text, so every pair is suitable."""
        return None

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of token rows, with special tokens and unchanged spaces."""
        return self.tokenizer.batch_decode(
            [list(map(int, row)) for row in rows], skip_special_tokens=False, clean_up_tokenization_spaces=False
        )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of texts, without special tokens."""
        return token_ids(self.tokenizer, texts, special=False)


def causal_suffixes(lm: Any, target: CausalTarget) -> CausalSuffixes:
    """Return the target for an ``HFLM`` with the fast target ``target``; prepends BOS if the harness does."""
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
    """Load the causal model and tokenizer ``name``, without remote code.

    Args:
        name: folder or hub name of the model.
        option: the user's option that specifies the model, for messages.
        device: device of the model.
        batch_size: batch size of the target.
        dtype: precision of the weights; by default chosen by transformers.

    Returns:
        The target; without a cache if its cache fails verification against passes over whole texts.

    Raises:
        TargetError: if the model cannot be loaded, or later tokens change the probabilities of earlier tokens.
    """
    from transformers import AutoModelForCausalLM

    def failure(reason: str) -> TargetError:
        return TargetError(f"{option}: cannot be loaded ({reason}): give a causal model's folder or hub name")

    precision: Any = {"dtype": dtype} if dtype else {}
    model, missing = read_model(AutoModelForCausalLM, name, failure=failure, **precision)
    tokenizer = read_tokenizer(name, bare=True, failure=failure)
    if missing:
        raise TargetError(
            f"{option}: not a trained causal language model ({missing[0]} is not in its weights): choose another model"
        )
    if tokenizer.bos_token_id is None and tokenizer.eos_token_id is None:
        raise TargetError(
            f"{option}: the tokenizer has neither a BOS nor an EOS token, so no text can be scored from its first "
            "token on: choose another model"
        )
    model.to(device).eval()
    target, uncached = (
        CausalTarget(model, tokenizer, device=device, batch_size=batch_size, cached=cached) for cached in (True, False)
    )
    if _agree(target, uncached):
        return target
    check_later_tokens(uncached, TEST_TOKENS, f"{option}: ")
    log.warning(
        "%s: the KV cache is not used, since it fails or gives other costs than a pass over the whole text: each step "
        "reads every text from its first token, so a text of n tokens takes up to n times as long",
        option,
    )
    return uncached


def _agree(target: CausalTarget, uncached: CausalTarget) -> bool:
    """Return True if passes with the model's cache and passes over whole texts give equal costs."""
    prefix, rest = TEST_TOKENS[:8], [TEST_TOKENS[8:], [12, 9]]
    try:
        results = [
            costs_after(SuffixSampler(model), [prefix] * len(rest), rest, whole=False) for model in (target, uncached)
        ]
    except Exception:  # an unusable cache fails in many ways
        return False
    ours, plain = (np.array([costs.sum() for costs in model]) for model in results)
    return agree(uncached, ours, plain, [len(tokens) for tokens in rest])

"""A harness model as a target: the fast one where it proves equal, else one built on the harness' own requests."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.models.huggingface import HFLM

from leakage_tasks.targets.causal import LN2, CausalTarget
from leakage_tasks.targets.protocols import FloatArray

log = logging.getLogger("lm_eval.leakage")

TOLERANCE_BITS = 1e-3
"""How far two ways of computing one log-perplexity may differ in float32."""
TOLERANCE_SHARE = 0.02
"""The same in 16-bit precision and below, as a share of the value."""
CHECK_TEXTS = ("The number is 281265017.", "A second, somewhat longer text ends with other digits: 90 71.")


class HarnessTarget:
    """Any harness model, through ``loglikelihood`` and ``generate_until`` alone.

    Implements ``ScoresSequences`` and ``CompletesText``: it can score and guess, but not search. A text is
    scored as the continuation of an empty context, which the harness turns into its prefix token.
    """

    def __init__(self, lm: LM) -> None:
        self._lm = lm
        self.max_length = getattr(lm, "max_length", None)

    def length(self, text: str) -> int | None:
        """Tokens of a text, or None where the model does not say."""
        encode = getattr(self._lm, "tok_encode", None)
        return None if encode is None else len(encode(text))

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """See :class:`~leakage_tasks.targets.protocols.ScoresSequences`."""
        requests = [_request("loglikelihood", ("", text), place) for place, text in enumerate(texts)]
        return np.array([-answer[0] / LN2 for answer in self._lm.loglikelihood(requests)], dtype=np.float64)

    def complete(self, text: str, characters: int) -> str:
        """See :class:`~leakage_tasks.targets.protocols.CompletesText`."""
        settings = {"until": ["\n\n"], "max_gen_toks": max(characters, 1), "do_sample": False, "temperature": 0.0}
        return self._lm.generate_until([_request("generate_until", (text, settings), 0)])[0]


def _request(kind: Any, arguments: tuple, place: int) -> Instance:
    return Instance(request_type=kind, doc={}, arguments=arguments, idx=place)


@singledispatch
def as_target(lm: LM) -> Any:
    """The most capable target a harness model offers. Adapters may register their own.

    An ``HFLM`` (or subclass) for causal models gets :class:`CausalTarget`, if that agrees with the model's own
    ``loglikelihood``; every other model gets :class:`HarnessTarget`.
    """
    return HarnessTarget(lm)


@as_target.register
def _(lm: HFLM) -> Any:
    if lm.backend != "causal":
        return HarnessTarget(lm)
    for cached in (True, False):
        target = causal_target(lm, cached=cached)
        difference = _disagreement(lm, target)
        if difference is None:
            return target
        way = "with a cache" if cached else "without a cache"
        log.warning("%s: fast scoring %s steps aside: %s", type(lm).__name__, way, difference)
    return HarnessTarget(lm)


def causal_target(lm: HFLM, cached: bool = True) -> CausalTarget:
    """The fast target for a causal ``HFLM``, with its device, precision, batch size, prefix token and length."""
    batch = lm.batch_size
    return CausalTarget(
        lm.model,
        lm.tokenizer,
        device=lm.device,
        batch_size=int(batch) if str(batch).isdecimal() else None,
        prefix_token=lm.prefix_token_id,
        max_length=lm.max_length,
        autocast=lm.mixed_precision_dtype,
        cached=cached,
    )


def _disagreement(lm: HFLM, target: CausalTarget) -> str | None:
    """Why the fast target must not be used, or None: two texts scored token by token against the harness."""
    try:
        encoded = [tokens[: target.max_length] for tokens in target.encode(CHECK_TEXTS)]
        requests = [(("", text), *_split(lm, tokens)) for text, tokens in zip(CHECK_TEXTS, encoded, strict=True)]
        # A fixed batch size keeps the harness from its batch-size search, which every process would have to join.
        answers = lm._loglikelihood_tokens(requests, disable_tqdm=True, override_bs=len(requests))
        theirs = np.array([-answer[0] / LN2 for answer in answers])
        ours = np.array([_step_through(target, tokens) for tokens in encoded])
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
    half = any(parameter.element_size() < 4 for parameter in lm.model.parameters()) or lm.mixed_precision_dtype
    allowed = np.maximum(TOLERANCE_BITS, TOLERANCE_SHARE * theirs if half else 0.0)
    if np.all(np.abs(ours - theirs) <= allowed):
        return None
    return f"log-perplexity {ours.round(4).tolist()} against the harness' {theirs.round(4).tolist()} bits"


def _split(lm: HFLM, tokens: list[int]) -> tuple[list[int], list[int]]:
    """The harness' rule for an empty context."""
    return ([lm.prefix_token_id], tokens) if tokens[0] != lm.prefix_token_id else (tokens[:1], tokens[1:])


def _step_through(target: CausalTarget, tokens: Sequence[int]) -> float:
    """Log-perplexity of a text, its second half one token at a time, as an attack reads it."""
    half = max(1, len(tokens) // 2)
    columns = np.array(sorted(set(tokens)))
    state, total, costs = target.start(tokens[:half], columns)
    zero = np.zeros(2, dtype=np.int64)
    for place, token in enumerate(tokens[half:], half + 1):
        total += float(costs[0, np.searchsorted(columns, token)])
        if place < len(tokens):
            # Two rows of the same text: a cache that mixes up rows or positions shows here.
            state, costs = target.extend([state], zero, zero, np.array([token, token]), columns)
            costs = costs[1:]
    return total

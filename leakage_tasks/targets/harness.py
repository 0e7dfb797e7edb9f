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

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.errors import TargetError
from leakage_tasks.targets.causal import LN2, CausalTarget
from leakage_tasks.targets.protocols import FloatArray
from leakage_tasks.targets.seq2seq import GivenSource, Seq2SeqTarget, Source, source_by_text

log = logging.getLogger("lm_eval.leakage")

TOLERANCE_BITS = 1e-3
"""How far two ways of computing one log-perplexity may differ in float32."""
TOLERANCE_SHARE = 0.02
"""The same in 16-bit precision and below, as a share of the value."""
CHECK_TEXTS = ("The number is 281265017.", "The number is 90 71, and there is more to come.")


def _nothing(text: str) -> str:
    """What is read before a text that has no source: an empty context, which the harness makes its prefix token."""
    return ""


class HarnessScorer:
    """Any harness model, through ``loglikelihood`` alone; implements ``ScoresSequences``.

    A text is scored as the continuation of its ``source``.
    """

    def __init__(self, lm: LM, source: Source = _nothing) -> None:
        self._lm = lm
        self._source = source
        self.max_length = getattr(lm, "max_length", None)
        if lm.world_size > 1 and str(getattr(lm, "batch_size", "")).startswith("auto"):
            raise TargetError(
                f"{type(lm).__name__} with batch_size=auto makes its processes wait for each other while an attack "
                "keeps them apart: pass --batch_size with a number"
            )

    def length(self, text: str) -> int | None:
        """Tokens of a text, or None where the model does not say."""
        try:
            return len(self._lm.tok_encode(text))
        except (AttributeError, NotImplementedError):
            return None

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """See :class:`~leakage_tasks.targets.protocols.ScoresSequences`. Raises TargetError if the model cannot."""
        requests = [_request("loglikelihood", (self._source(text), text), place) for place, text in enumerate(texts)]
        try:
            answers = self._lm.loglikelihood(requests)
        except NotImplementedError:
            raise TargetError(
                f"{type(self._lm).__name__} gives no log-likelihoods: only canary_extraction with attack=greedy works "
                "on it; for the rest choose a model or API that gives them"
            ) from None
        return np.array([-answer[0] / LN2 for answer in answers], dtype=np.float64)


class HarnessTarget(HarnessScorer):
    """Any harness model, through ``loglikelihood`` and ``generate_until`` alone.

    Implements ``ScoresSequences`` and ``CompletesText``: it can score and guess, but not search. A text is
    scored as the continuation of an empty context.
    """

    def complete(self, text: str, characters: int) -> str:
        """See :class:`~leakage_tasks.targets.protocols.CompletesText`."""
        settings = {"until": ["\n\n"], "max_gen_toks": max(characters, 1), "do_sample": False, "temperature": 0.0}
        return self._lm.generate_until([_request("generate_until", (text, settings), 0)])[0]


class HarnessSeq2Seq:
    """An encoder-decoder model through ``loglikelihood`` alone; implements ``ReadsSource``."""

    def __init__(self, lm: LM) -> None:
        self._lm = lm

    def given(self, canary: Canary) -> HarnessScorer:
        """See :class:`~leakage_tasks.targets.protocols.ReadsSource`."""
        return HarnessScorer(self._lm, source_by_text(canary))


def _request(kind: Any, arguments: tuple, place: int) -> Instance:
    return Instance(request_type=kind, doc={}, arguments=arguments, idx=place)


@singledispatch
def as_target(lm: LM, texts: Sequence[str] = CHECK_TEXTS, private: bool = False) -> Any:
    """The most capable target a harness model offers. Adapters may register their own.

    An ``HFLM`` (or subclass) for causal models gets :class:`CausalTarget`, one for encoder-decoder models
    :class:`Seq2SeqTarget`, if on ``texts`` (two of them) that agrees with the model's own ``loglikelihood``. If it does
    not, and for every other model, what the harness itself computes is asked for: :class:`HarnessSeq2Seq` and
    :class:`HarnessTarget`. Of an error over texts that are ``private`` the log shows the name alone.
    """
    return HarnessTarget(lm)


@as_target.register
def _(lm: HFLM, texts: Sequence[str] = CHECK_TEXTS, private: bool = False) -> Any:
    translates = lm.backend == "seq2seq"
    for cached in (True, False):
        try:
            target = seq2seq_target(lm, cached=cached) if translates else causal_target(lm, cached=cached)
            difference = _disagreement(lm, target, texts)
        except Exception as error:
            shown = "" if private else f": {' '.join(str(error).split())[:200]}"
            difference = type(error).__name__ + shown
        if difference is None:
            return target
        way = "with a cache" if cached else "without a cache"
        log.warning("%s: fast scoring %s steps aside: %s", type(lm).__name__, way, difference)
    return HarnessSeq2Seq(lm) if translates else HarnessTarget(lm)


def causal_target(lm: HFLM, cached: bool = True) -> CausalTarget:
    """The fast target for a causal ``HFLM``, with its device, precision, batch size, prefix token and length."""
    return CausalTarget(lm.model, lm.tokenizer, prefix_token=lm.prefix_token_id, cached=cached, **_settings(lm))


def seq2seq_target(lm: HFLM, cached: bool = True) -> Seq2SeqTarget:
    """The same for an encoder-decoder ``HFLM``, with its way of reading a context."""
    return Seq2SeqTarget(lm.model, lm.tokenizer, encode_source=lm.tok_encode, cached=cached, **_settings(lm))


def _settings(lm: HFLM) -> dict[str, Any]:
    batch = lm.batch_size
    return {
        "device": lm.device,
        "batch_size": int(batch) if str(batch).isdecimal() else None,
        "max_length": lm.max_length,
        "autocast": lm.mixed_precision_dtype,
    }


def _disagreement(lm: HFLM, target: CausalTarget | Seq2SeqTarget, texts: Sequence[str]) -> str | None:
    """How far the fast target is from the harness on two texts, or None if it is close enough.

    An encoder-decoder model reads the first of them as the source of both.
    """
    encoded = [tokens[: target.max_length] for tokens in target.encode(texts)]
    if isinstance(target, Seq2SeqTarget):
        source = lm.tok_encode(texts[0])[-target.max_length :]
        requests = [((texts[0], text), source, tokens) for text, tokens in zip(texts, encoded, strict=True)]
        ours = _stepped(GivenSource(target, source), encoded)
    else:
        requests = [(("", text), *_split(lm, tokens)) for text, tokens in zip(texts, encoded, strict=True)]
        ours = _stepped(target, encoded)
    # A fixed batch size keeps the harness from its batch-size search, which every process would have to join.
    answers = lm._loglikelihood_tokens(requests, disable_tqdm=True, override_bs=len(requests))
    theirs = np.array([-answer[0] / LN2 for answer in answers])
    half = in_half_precision(lm.model, lm.mixed_precision_dtype)
    allowed = np.maximum(TOLERANCE_BITS, TOLERANCE_SHARE * theirs if half else 0.0)
    if np.all(np.abs(ours - theirs) <= allowed):
        return None
    return f"log-perplexity {ours.round(4).tolist()} against the harness' {theirs.round(4).tolist()} bits"


def in_half_precision(model: Any, autocast: Any) -> bool:
    """Whether a model computes in 16 bits or fewer, by its weights or by the mixed precision ``autocast``."""
    return autocast is not None or any(parameter.element_size() < 4 for parameter in model.parameters())


def _split(lm: HFLM, tokens: list[int]) -> tuple[list[int], list[int]]:
    """The harness' rule for an empty context."""
    return ([lm.prefix_token_id], tokens) if tokens[0] != lm.prefix_token_id else (tokens[:1], tokens[1:])


def _stepped(target: CausalTarget, encoded: Sequence[list[int]]) -> FloatArray:
    """Log-perplexities as an attack computes them: what the texts share at once, then one token at a time together.

    The texts are rows of one batch, so a cache that mixes up rows or positions shows.
    """
    shared = 0
    while shared < min(map(len, encoded)) - 1 and len({tokens[shared] for tokens in encoded}) == 1:
        shared += 1
    columns = np.unique(np.concatenate([np.array(tokens) for tokens in encoded]))
    state, cost, costs = target.start(encoded[0][:shared], columns)
    totals, rows = np.full(len(encoded), cost), np.zeros(len(encoded), dtype=np.int64)
    alive = np.arange(len(encoded))
    for depth in range(shared, max(map(len, encoded))):
        fed = np.array([encoded[int(text)][depth] for text in alive])
        totals[alive] += costs[rows, np.searchsorted(columns, fed)]
        onward = np.array([len(encoded[int(text)]) > depth + 1 for text in alive])
        if onward.any():
            zero = np.zeros(int(onward.sum()), dtype=np.int64)
            state, costs = target.extend([state], zero, rows[onward], fed[onward], columns)
        alive, rows = alive[onward], np.arange(int(onward.sum()))
    return totals

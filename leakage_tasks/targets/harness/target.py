"""A harness model as a target: the fast one where it proves equal, else one built on the harness' own requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.models.huggingface import HFLM

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import log
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.harness.fast_path import check_order, fast_target, seq2seq_target
from leakage_tasks.targets.seq2seq.languages import Languages, speech
from leakage_tasks.targets.seq2seq.target import Source, source_by_text
from leakage_tasks.targets.seq2seq.teacher_forcing import TeacherForced

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
        return self._bits(lambda: self._lm.loglikelihood(requests))

    def _bits(self, ask: Callable[[], Sequence[tuple[float, bool]]]) -> FloatArray:
        """Costs from what ``ask`` gives. Raises TargetError if the model cannot tell."""
        try:
            answers = ask()
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

    def in_context(self, context: Context, space: Space) -> HarnessTarget:
        """See :class:`~leakage_tasks.targets.protocols.TakesContext`."""
        from leakage_tasks.targets.harness.context import harness_in_context

        return harness_in_context(self._lm, context, space)


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
def as_target(
    lm: LM, texts: Sequence[str] = CHECK_TEXTS, private: bool = False, languages: Languages | None = None
) -> Any:
    """The most capable target a harness model offers. Adapters may register their own.

    An ``HFLM`` (or subclass) for causal models gets a :class:`~leakage_tasks.targets.causal.target.CausalTarget`, one
    for encoder-decoder models a :class:`~leakage_tasks.targets.seq2seq.target.Seq2SeqTarget`, if on ``texts`` (two of
    them) that agrees with the model's own ``loglikelihood``. If it does not, and for every other model, what the
    harness itself computes is asked for: :class:`HarnessSeq2Seq` and :class:`HarnessTarget`. Of an error over texts
    that are ``private`` the log shows the name alone.

    The harness hands an encoder-decoder model its labels, knows of no forced first token, and lets mBART's decoder
    begin with the *last* token of a text. Where the decoder begins with such a token or a language code
    (:func:`~leakage_tasks.targets.seq2seq.languages.speech`), its figures are therefore of another text, and what the
    fast way has to agree with, and what takes its place if it does not, is one plain forward pass a text
    (:class:`~leakage_tasks.targets.seq2seq.teacher_forcing.TeacherForced`), which shares neither cache nor batch with
    it.

    ``languages`` are for translation models. Raises TargetError for a code the tokenizer lacks, and for a causal
    ``HFLM`` of which no way gives a text's log-perplexity: its tokenizer has no token for a text to begin with, or it
    reads what follows a token before it tells the token's probability.
    """
    return HarnessTarget(lm)


@as_target.register
def _(lm: HFLM, texts: Sequence[str] = CHECK_TEXTS, private: bool = False, languages: Languages | None = None) -> Any:
    if lm.prefix_token_id is None and lm.backend == "seq2seq":
        raise TargetError(
            "the tokenizer has neither a BOS nor an EOS token, without which the harness tokenizes no text: pass "
            "prefix_token_id=N in --model_args, N the number of a token that no text begins with"
        )
    if lm.prefix_token_id is None:
        raise TargetError(
            "the tokenizer has neither a BOS nor an EOS token, so no text can be scored from its first token on: pass "
            "prefix_token_id=N in --model_args, N the number of the token that stood before each text in training"
        )
    if lm.max_length < 1:
        if lm.backend == "causal":
            check_order(lm, texts)
        raise TargetError(
            f"the model's config says that it reads {lm.max_length} tokens, which the harness takes for a limit: pass "
            "max_length=N in --model_args, N the number of tokens of its longest training texts"
        )
    plain = _plain_seq2seq(lm, languages or Languages()) if lm.backend == "seq2seq" else HarnessTarget(lm)
    return fast_target(lm, plain, texts, private, lm.prefix_token_id, languages)


def _plain_seq2seq(lm: HFLM, languages: Languages) -> HarnessSeq2Seq | TeacherForced:
    """The slow way of a translation model, and one line where its decoder begins with more than a start token."""
    spoken = speech(lm.model, lm.tokenizer, languages)
    if spoken.lacks_language:
        log.warning(
            "leakage: the tokenizer has language codes, and neither the model nor --metadata says which of them the "
            "target begins with: it is scored without one; pass --metadata target_language=…"
        )
    if not spoken.marked:
        return HarnessSeq2Seq(lm)
    if not _scores_as_hflm(lm):
        log.warning(
            "%s scores in a way of its own, which cannot be told that the decoder begins with '%s': its figures are of "
            "texts without that; use --model hf",
            type(lm).__name__,
            spoken.words,
        )
        return HarnessSeq2Seq(lm)
    log.info("leakage: the decoder reads '%s' before each target sentence; its cost is not counted", spoken.words)
    return TeacherForced(seq2seq_target(lm, languages=languages))


def _scores_as_hflm(lm: HFLM) -> bool:
    return all(getattr(type(lm), name) is getattr(HFLM, name) for name in ("_loglikelihood_tokens", "_model_call"))

"""A harness model as a target: the fast one where it proves equal, else one built on the harness' own requests."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import log, warn_once
from leakage_tasks.core.registry import Registry, check_callable
from leakage_tasks.harness.api import LM, TemplateLM
from leakage_tasks.harness.generation import request
from leakage_tasks.harness.hf import HFLM
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.causal.in_context import lead_of, start_token
from leakage_tasks.targets.embedded_tokens import embedded_tokens
from leakage_tasks.targets.harness.fast_path import check_order, fast_target, seq2seq_target
from leakage_tasks.targets.harness.faults import gives_no_likelihoods, kinds
from leakage_tasks.targets.harness.texts import (
    HarnessTexts,
    TextTokens,
    asked_together,
    check_decoding,
    generation_settings,
    text_tokens,
)
from leakage_tasks.targets.seq2seq.languages import Languages, speech
from leakage_tasks.targets.seq2seq.target import Source, TeacherForced, source_by_text
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

ALIKE = 10
"""Draws of which not two differ, from which on that is suspicious."""
CHECK_TEXTS = ("The number is 281265017.", "The number is 90 71, and there is more to come.")


def _nothing(text: str) -> str:
    """What is read before a text that has no source: an empty context, which the harness makes its prefix token."""
    return ""


class HarnessScorer:
    """Any harness model, through ``loglikelihood`` alone; implements ``ScoresSequences``.

    A text is scored as the continuation of its ``source``.
    """

    def __init__(self, lm: LM, source: Source = _nothing) -> None:
        self._lm = self.lm = lm
        self._source = source
        self._embedded = embedded_tokens(lm)
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
        self._embedded.check_texts(texts)
        requests = [request("loglikelihood", {}, (self._source(text), text), index) for index, text in enumerate(texts)]
        return self._bits("texts", self._lm.loglikelihood, requests)

    def _bits(
        self, kind: str, call: Callable[[list[Any]], Sequence[tuple[float, bool]]], requests: Sequence[Any]
    ) -> FloatArray:
        """Costs from what ``call`` gives to all attacks' requests of the ``kind``. Raises TargetError if it cannot."""
        try:
            answers = asked_together(self._lm, kind, call, requests)
        except Exception as error:
            if not (gives_no_likelihoods(self._lm, error) and only_writes(self._lm)):
                raise
            raise TargetError(
                f"{type(self._lm).__name__} gives no log-likelihoods: only canary_extraction with attack=sample-text "
                "or greedy works on it; for the rest choose a model or API that gives them"
            ) from None
        return np.array([-answer[0] / LN2 for answer in answers], dtype=np.float64)


def only_writes(lm: LM) -> bool:
    """Whether a model gives no log-likelihoods, asked for one the first time."""
    if lm not in _ONLY_WRITE:
        _ONLY_WRITE[lm] = not HarnessTexts(lm).scores("a")
    return _ONLY_WRITE[lm]


_ONLY_WRITE: WeakKeyDictionary[LM, bool] = WeakKeyDictionary()


class HarnessTarget(HarnessScorer):
    """Any harness model, through ``loglikelihood`` and ``generate_until`` alone.

    Implements ``ScoresSequences`` and ``CompletesText``: it can score and guess, but not search. A text is
    scored as the continuation of an empty context.
    """

    before = ""
    """What is written after, besides a text."""

    @property
    def only_writes(self) -> bool:
        """See :class:`~leakage_tasks.targets.protocols.WritesTexts`."""
        return only_writes(self._lm)

    def complete(self, text: str, characters: int) -> str:
        """See :class:`~leakage_tasks.targets.protocols.CompletesText`."""
        self._embedded.check_texts([self.before + text])
        settings = {"until": ["\n\n"], "max_gen_toks": max(characters, 1), "do_sample": False, "temperature": 0.0}
        asked = [request("generate_until", {}, (self.before + text, settings), 0)]
        return asked_together(self._lm, self._alike("complete", text), self._lm.generate_until, asked)[0]

    def _alike(self, what: str, text: str) -> Hashable:
        """What is equal in texts that are gone on with in one call: without padding, which some models read."""
        return what, HarnessScorer.length(self, self.before + text)

    def write(self, text: str, characters: int, number: int, scheme: DecodingConfig, seed: str) -> list[str]:
        """See :class:`~leakage_tasks.targets.protocols.WritesTexts`. Raises TargetError for models that do not draw."""
        check_decoding(self._lm, scheme)
        self._embedded.check_texts([self.before + text])
        stream = random.Random(f"write:{seed}")
        settings = [generation_settings(self._lm, scheme, characters, stream.random()) for _ in range(number)]
        asked = [(self.before + text, {**setting, "until": ["\n\n"]}) for setting in settings]
        return self._drawn(self._alike("write", text), asked)

    def _drawn(self, kind: Hashable, asked: Sequence[tuple[Any, dict[str, Any]]]) -> list[str]:
        """What the model writes after each text; a warning where it does not seem to draw."""
        texts, number = asked_together(self._lm, kind, HarnessTexts(self._lm).continuations, asked), len(asked)
        if number >= ALIKE and len(set(texts)) == 1:
            warn_once(
                f"{kinds(self._lm)[0]} wrote one and the same text {number} times after a canary's beginning: unless "
                "that is memorized it does not sample, and so many draws are one: look at its settings"
            )
        return texts

    def in_context(self, context: Context, space: Space) -> HarnessTarget:
        """See :class:`~leakage_tasks.targets.protocols.TakesContext`; by token ids where the model takes them.

        Raises TargetError for a start that only token ids can give it, on a model that takes none.
        """
        # Some models of this class send text all the same, and what reads it puts tokens of its own before.
        if isinstance(self._lm, TemplateLM) and getattr(self._lm, "tokenized_requests", True):
            try:
                tokens = text_tokens(self._lm)
            except TargetError:
                return TextInContext(self._lm, context)
            return TokensInContext(self._lm, context, space, tokens)
        return TextInContext(self._lm, context)


class TextInContext(HarnessTarget):
    """A model that knows nothing but text; implements ``ScoresSequences`` and ``CompletesText``.

    It gets the context as text, and splits the two as it does for every task.
    """

    def __init__(self, lm: LM, context: Context) -> None:
        super().__init__(lm, lambda text: context.before)
        self._context, self.before = context, context.before
        if context.start != "auto" and not context.chat:
            raise TargetError(
                f"context={context}: {type(lm).__name__} takes text and puts its own tokens before it: use "
                "context=auto or a text"
            )
        if context.before and not context.before.strip():
            raise TargetError(
                f"context={context}: {type(lm).__name__} takes text, and of white space alone the harness makes no "
                "context: use context=auto or a text"
            )

    def length(self, text: str) -> int | None:
        """Tokens of a text and its context, None where the model does not say."""
        return super().length(self._context.before + text + self._context.after)

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """See :class:`~leakage_tasks.targets.protocols.ScoresSequences`."""
        return super().log_perplexity([text + self._context.after for text in texts])


class TokensInContext(HarnessTarget):
    """A model that takes token ids; implements ``ScoresSequences`` and ``CompletesText``.

    It gets the same ones as :mod:`leakage_tasks.targets.causal.in_context` reads.
    """

    def __init__(self, lm: TemplateLM, context: Context, space: Space, tokens: TextTokens) -> None:
        super().__init__(lm)
        self._template, self._context, self._tokens, self.before = lm, context, tokens, context.before
        start = start_token(context, lm.prefix_token_id, lm.tokenizer)
        self._lead = lead_of(context, space, tokens.encode, lambda row: tokens.decode([row])[0], start)

    def length(self, text: str) -> int:
        """Tokens of a text and its context, the first one of all not counted."""
        return len(self._read([text])[0]) - 1

    def _read(self, texts: Sequence[str]) -> list[list[int]]:
        """The lead and each text's tokens after it."""
        around = [self._context.before + text + self._context.after for text in texts]
        encoded = self._tokens.encode(around)
        self._embedded.check(encoded)
        return [self._lead.begin(tokens) for tokens in self._lead.after(encoded)]

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """See :class:`~leakage_tasks.targets.protocols.ScoresSequences`. Raises TargetError if the model cannot."""
        read = max(1, len(self._lead.tokens))
        # Without a key the harness caches nothing: its keys are texts, which do not tell contexts apart.
        requests = [(None, tokens[:read], tokens[read:]) for tokens in self._read(texts)]
        return self._bits("tokens", partial(self._template._loglikelihood_tokens, disable_tqdm=True), requests)

    def complete(self, text: str, characters: int) -> str:
        """See :class:`~leakage_tasks.targets.protocols.CompletesText`. Raises TargetError for a start of its own."""
        self._check_start()
        return super().complete(text, characters)

    def write(self, text: str, characters: int, number: int, scheme: DecodingConfig, seed: str) -> list[str]:
        """See :class:`~leakage_tasks.targets.protocols.WritesTexts`. Raises TargetError for a start of its own."""
        self._check_start()
        return super().write(text, characters, number, scheme, seed)

    def _check_start(self) -> None:
        if self._context.start != "auto" and not self._context.chat:
            raise TargetError(
                f"context={self._context}: what a model writes begins with the tokens the harness puts there: use "
                "context=auto or a text"
            )


class HarnessSeq2Seq:
    """An encoder-decoder model through ``loglikelihood`` alone; implements ``ReadsSource``."""

    def __init__(self, lm: LM) -> None:
        self._lm = lm

    def given(self, canary: Canary) -> HarnessScorer:
        """See :class:`~leakage_tasks.targets.protocols.ReadsSource`."""
        return HarnessScorer(self._lm, source_by_text(canary))


Make = Callable[..., Any]
TARGETS: Registry[Make] = Registry("target", group="lm_eval_leakage.targets")
"""What makes a harness model's target, by the model's class: its module and name, such as ``my_package.model.MyLM``."""


def register_target(lm: type[LM]) -> Callable[[Make], Make]:
    """Register a function of a harness model of this class, two texts and whether they are private as its target.

    Subclasses have it too, unless they have their own. Raises PluginError for a class that has one, and for a function
    of another signature.
    """

    def add(make: Make) -> Make:
        name = _name(lm)
        check_callable(f"target {name!r}", make, ["lm", "texts", "private"])
        return TARGETS.register(name, make)

    return add


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def as_target(
    lm: LM, texts: Sequence[str] = CHECK_TEXTS, private: bool = False, languages: Languages | None = None
) -> Any:
    """The most capable target a harness model offers; adapters register theirs by :func:`register_target`.

    An ``HFLM`` (or subclass) for causal models gets a :class:`~leakage_tasks.targets.causal.target.CausalTarget`, one
    for encoder-decoder models a :class:`~leakage_tasks.targets.seq2seq.target.Seq2SeqTarget`, if on ``texts`` (two of
    them) that agrees with the model's own ``loglikelihood``. If it does not, and for every other model, what the
    harness itself computes is asked for: :class:`HarnessSeq2Seq` and :class:`HarnessTarget`. Of an error over texts
    that are ``private`` the log shows the name alone.

    The harness hands an encoder-decoder model its labels, knows of no forced first token, and lets mBART's decoder
    begin with the *last* token of a text. Where the decoder begins with such a token or a language code
    (:func:`~leakage_tasks.targets.seq2seq.languages.speech`), its figures are therefore of another text, and what the
    fast way has to agree with, and what takes its place if it does not, is one plain forward pass a text
    (:class:`~leakage_tasks.targets.seq2seq.target.TeacherForced`), which shares neither cache nor batch with
    it.

    ``languages`` are for translation models. Raises TargetError for a code the tokenizer lacks, and for a causal
    ``HFLM`` of which no way gives a text's log-perplexity: its tokenizer has no token for a text to begin with, or it
    reads what follows a token before it tells the token's probability.
    """
    spoken = {} if languages is None else {"languages": languages}
    known = TARGETS.names()
    name = next((name for kind in type(lm).__mro__ if (name := _name(kind)) in known), None)
    return HarnessTarget(lm) if name is None else TARGETS[name](lm, texts, private, **spoken)


@register_target(HFLM)
def _of_transformers(
    lm: HFLM, texts: Sequence[str] = CHECK_TEXTS, private: bool = False, languages: Languages | None = None
) -> Any:
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
    if any(getattr(type(lm), name) is not getattr(HFLM, name) for name in ("_loglikelihood_tokens", "_model_call")):
        log.warning(
            "%s scores in a way of its own, which cannot be told that the decoder begins with '%s': its figures are of "
            "texts without that; use --model hf",
            type(lm).__name__,
            spoken.words,
        )
        return HarnessSeq2Seq(lm)
    log.info("leakage: the decoder reads '%s' before each target sentence; its cost is not counted", spoken.words)
    return TeacherForced(seq2seq_target(lm, languages=languages))

"""Harness models as targets: the fast target if its scores agree, else a target that uses the harness' requests."""

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
from leakage_tasks.models.loading import is_bare
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.causal.in_context import lead_of, start_token
from leakage_tasks.targets.embedded_tokens import embedded_tokens
from leakage_tasks.targets.harness.fast_path import check_order, fast_target, seq2seq_target
from leakage_tasks.targets.harness.faults import class_names, gives_no_likelihoods
from leakage_tasks.targets.harness.texts import (
    HarnessTexts,
    TextTokens,
    check_decoding,
    generation_settings,
    submit_batched,
    text_tokens,
)
from leakage_tasks.targets.seq2seq.languages import Languages, speech
from leakage_tasks.targets.seq2seq.target import Source, TeacherForced, source_by_text
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

WARN_SAMPLES = 10
"""Number of samples from which a warning is issued if all samples are equal."""
CHECKED_CHARACTERS = 100
"""Number of characters of a user's text on which the fast path of a model is verified."""
CHECK_TEXTS = ("The number is 281265017.", "The number is 90 71, and there is more to come.")


class HarnessScorer:
    """Any harness model, used only by ``loglikelihood``; implements ``ScoresSequences``.

    A text is scored as the continuation of its ``source``, by default the empty context, which the harness replaces by
    its prefix token.
    """

    def __init__(self, lm: LM, source: Source = lambda text: "") -> None:
        self._lm = self.lm = lm
        self._source = source
        self._embedded = embedded_tokens(lm)
        self.max_length = getattr(lm, "max_length", None)
        if lm.world_size > 1 and str(getattr(lm, "batch_size", "")).startswith("auto"):
            raise TargetError(
                f"{type(lm).__name__} with batch_size=auto makes its processes wait for each other, but an attack runs "
                "on each process separately: pass --batch_size with a number"
            )

    def length(self, text: str) -> int | None:
        """Return the number of tokens of a text, or None if the model does not report it."""
        try:
            return len(self._lm.tok_encode(text))
        except (AttributeError, NotImplementedError):
            return None

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """Return the log-perplexity of each text in bits. Raises TargetError if the model gives no log-likelihoods."""
        self._embedded.check_texts(texts)
        requests = [request("loglikelihood", {}, (self._source(text), text), index) for index, text in enumerate(texts)]
        return self._bits("texts", self._lm.loglikelihood, requests)

    def _bits(
        self, kind: str, call: Callable[[list[Any]], Sequence[tuple[float, bool]]], requests: Sequence[Any]
    ) -> FloatArray:
        """Return costs by ``call``, batched over all attacks' requests of the ``kind``."""
        try:
            answers = submit_batched(self._lm, kind, call, requests)
        except Exception as error:
            if not (gives_no_likelihoods(self._lm, error) and only_writes(self._lm)):
                raise
            raise TargetError(
                f"{type(self._lm).__name__} gives no log-likelihoods: it supports only canary_extraction with "
                "attack=sample-text or greedy; for other tasks choose a model or API that gives them"
            ) from None
        return np.array([-answer[0] / LN2 for answer in answers], dtype=np.float64)


def only_writes(lm: LM) -> bool:
    """Return True if a model gives no log-likelihoods; a first request tests this."""
    if lm not in _ONLY_WRITE:
        _ONLY_WRITE[lm] = not HarnessTexts(lm).scores("a")
    return _ONLY_WRITE[lm]


_ONLY_WRITE: WeakKeyDictionary[LM, bool] = WeakKeyDictionary()


class HarnessTarget(HarnessScorer):
    """Any harness model, used only by ``loglikelihood`` and ``generate_until``.

    Implements ``ScoresSequences`` and ``CompletesText``: it can score and complete texts, but not search. A text is
    scored as the continuation of an empty context.
    """

    before = ""
    """Text before each text that the model continues."""

    @property
    def only_writes(self) -> bool:
        return only_writes(self._lm)

    def complete(self, text: str, characters: int) -> str:
        self._embedded.check_texts([self.before + text])
        settings = {"until": ["\n\n"], "max_gen_toks": max(characters, 1), "do_sample": False, "temperature": 0.0}
        requests = [request("generate_until", {}, (self.before + text, settings), 0)]
        return submit_batched(self._lm, self._batch_key("complete", text), self._lm.generate_until, requests)[0]

    def _batch_key(self, what: str, text: str) -> Hashable:
        """Return the key of texts that share a call: texts of equal length, since some models read padding."""
        return what, HarnessScorer.length(self, self.before + text)

    def write(self, text: str, characters: int, number: int, scheme: DecodingConfig, seed: str) -> list[str]:
        """Sample ``number`` continuations of ``text``. Raises TargetError for models that do not sample."""
        check_decoding(self._lm, scheme)
        self._embedded.check_texts([self.before + text])
        stream = random.Random(f"write:{seed}")
        settings = [generation_settings(self._lm, scheme, characters, stream.random()) for _ in range(number)]
        requests = [(self.before + text, {**setting, "until": ["\n\n"]}) for setting in settings]
        return self._drawn(self._batch_key("write", text), requests)

    def _drawn(self, kind: Hashable, requests: Sequence[tuple[Any, dict[str, Any]]]) -> list[str]:
        """Return the continuation of each text; warn if the model does not seem to sample."""
        texts, number = submit_batched(self._lm, kind, HarnessTexts(self._lm).continuations, requests), len(requests)
        if number >= WARN_SAMPLES and len(set(texts)) == 1:
            warn_once(
                f"{class_names(self._lm)[0]} wrote one text {number} times after a canary's beginning: unless the text "
                "is memorized, the model does not sample, and further samples add nothing: check its settings"
            )
        return texts

    def in_context(self, context: Context, space: Space) -> HarnessTarget:
        """Return a target in ``context``; by token ids if the model accepts them.

        Raises TargetError for a start that needs token ids, on a model that accepts only text.
        """
        # Some models of this class send text nevertheless, and the server adds its own tokens before it.
        if isinstance(self._lm, TemplateLM) and getattr(self._lm, "tokenized_requests", True):
            try:
                tokens = text_tokens(self._lm)
            except TargetError:
                return TextInContext(self._lm, context)
            return TokensInContext(self._lm, context, space, tokens)
        return TextInContext(self._lm, context)


class TextInContext(HarnessTarget):
    """A model that accepts only text; implements ``ScoresSequences`` and ``CompletesText``.

    It receives the context as text, and separates context and continuation as it does for every task.
    """

    def __init__(self, lm: LM, context: Context) -> None:
        super().__init__(lm, lambda text: context.before)
        self._context, self.before = context, context.before
        if context.start != "auto" and not context.chat:
            raise TargetError(
                f"context={context}: {type(lm).__name__} receives text and adds its own tokens before it: use "
                "context=auto or a text"
            )
        if context.before and not context.before.strip():
            raise TargetError(
                f"context={context}: {type(lm).__name__} receives text, and the harness makes no context from only "
                "white space: use context=auto or a text"
            )

    def length(self, text: str) -> int | None:
        """Return the number of tokens of a text and its context, or None if the model does not report it."""
        return super().length(self._context.before + text + self._context.after)

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        return super().log_perplexity([text + self._context.after for text in texts])


class TokensInContext(HarnessTarget):
    """A model that accepts token ids; implements ``ScoresSequences`` and ``CompletesText``.

    It receives the tokens that :mod:`leakage_tasks.targets.causal.in_context` reads.
    """

    def __init__(self, lm: TemplateLM, context: Context, space: Space, tokens: TextTokens) -> None:
        super().__init__(lm)
        self._template, self._context, self._tokens, self.before = lm, context, tokens, context.before
        start = start_token(context, lm.prefix_token_id, lm.tokenizer)
        self._lead = lead_of(context, space, tokens.encode, lambda row: tokens.decode([row])[0], start)

    def length(self, text: str) -> int:
        """Return the number of tokens of a text and its context, without the first token of the whole sequence."""
        return len(self._read([text])[0]) - 1

    def _read(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of the shared context followed by each text's own tokens."""
        around = [self._context.before + text + self._context.after for text in texts]
        encoded = self._tokens.encode(around)
        self._embedded.check(encoded)
        return [self._lead.begin(tokens) for tokens in self._lead.after(encoded)]

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """Return the log-perplexity of each text in bits. Raises TargetError if the model gives no log-likelihoods."""
        read = max(1, len(self._lead.tokens))
        # Without a key the harness caches nothing; its keys are texts, which do not include the context.
        requests = [(None, tokens[:read], tokens[read:]) for tokens in self._read(texts)]
        return self._bits("tokens", partial(self._template._loglikelihood_tokens, disable_tqdm=True), requests)

    def complete(self, text: str, characters: int) -> str:
        """Return the greedy continuation of ``text``. Raises TargetError for a context with its own start token."""
        self._check_start()
        return super().complete(text, characters)

    def write(self, text: str, characters: int, number: int, scheme: DecodingConfig, seed: str) -> list[str]:
        """Sample ``number`` continuations of ``text``. Raises TargetError for a context with its own start token."""
        self._check_start()
        return super().write(text, characters, number, scheme, seed)

    def _check_start(self) -> None:
        if self._context.start != "auto" and not self._context.chat:
            raise TargetError(
                f"context={self._context}: a model's generated text starts with the harness' own tokens: use "
                "context=auto or a text"
            )


class HarnessSeq2Seq:
    """An encoder-decoder model, used only by ``loglikelihood``; implements ``ReadsSource``."""

    def __init__(self, lm: LM) -> None:
        self._lm = lm

    def given(self, canary: Canary) -> HarnessScorer:
        return HarnessScorer(self._lm, source_by_text(canary))


Make = Callable[..., Any]
TARGETS: Registry[Make] = Registry("target", group="lm_eval_leakage.targets")
"""Functions that make a model's target, by the model's class: module and name, such as ``my_package.model.MyLM``."""


def register_target(lm: type[LM]) -> Callable[[Make], Make]:
    """Register a function that makes the target of a harness model of class ``lm``.

    The function takes the model, two texts, and whether they are private. Subclasses use it too, unless they have their
    own function. Raises PluginError for a class that has a function, and for a function of another signature.
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
    """Return the most capable target for a harness model; adapters register theirs by :func:`register_target`.

    An ``HFLM`` (or subclass) with a causal model gets a :class:`~leakage_tasks.targets.causal.target.CausalTarget`, or
    with an encoder-decoder model a :class:`~leakage_tasks.targets.seq2seq.target.Seq2SeqTarget`, if on two ``texts``
    its scores agree with the model's own ``loglikelihood``. Otherwise, and for every other model, the target uses the
    harness' own functions: :class:`HarnessSeq2Seq` or :class:`HarnessTarget`.

    The harness passes labels to an encoder-decoder model, ignores forced first tokens, and lets mBART's decoder begin
    with the *last* token of a text. If the decoder begins with such a token or a language code
    (:func:`~leakage_tasks.targets.seq2seq.languages.speech`), the harness therefore scores another text.
    The fast target is then compared with one plain forward pass for each text
    (:class:`~leakage_tasks.targets.seq2seq.target.TeacherForced`), which uses neither cache nor batches and also
    replaces the fast target if the scores disagree.

    Args:
        lm: the harness model.
        texts: two texts for the comparison.
        private: if true, the log shows only the name of an error over ``texts``.
        languages: the languages of a translation model.

    Raises:
        TargetError: the tokenizer lacks a language code, or a causal ``HFLM`` cannot give a text's log-perplexity: its
            tokenizer has no token to begin a text with, or later tokens change the probabilities of earlier tokens.
    """
    spoken = {} if languages is None else {"languages": languages}
    known = TARGETS.names()
    name = next((name for kind in type(lm).__mro__ if (name := _name(kind)) in known), None)
    return HarnessTarget(lm) if name is None else TARGETS[name](lm, texts, private, **spoken)


def target_for_texts(lm: LM, texts: Sequence[str]) -> Any:
    """Return the most capable target for a user's ``texts``, verified on the beginnings of the first and the last one.

    The log shows no text. Raises TargetError like :func:`as_target`.
    """
    return as_target(lm, [text[:CHECKED_CHARACTERS] for text in (texts[0], texts[-1])], private=True)


def check_tokenizer(lm: HFLM) -> None:
    """Raise TargetError if a model has no tokenizer, or, as a causal model, no token to begin a text with."""
    if is_bare(lm.tokenizer):
        raise TargetError(
            "the model's tokenizer has special tokens only, because its files are missing: save the tokenizer of the "
            "training in the model's folder, or name it with tokenizer=NAME in --model_args"
        )
    if lm.prefix_token_id is None:
        raise TargetError(
            "the tokenizer has neither a BOS nor an EOS token, so no text can be scored from its first token on: pass "
            "prefix_token_id=N in --model_args, N the number of the token before each text in training"
        )


@register_target(HFLM)
def _of_transformers(
    lm: HFLM, texts: Sequence[str] = CHECK_TEXTS, private: bool = False, languages: Languages | None = None
) -> Any:
    if lm.prefix_token_id is None and lm.backend == "seq2seq":
        raise TargetError(
            "the tokenizer has neither a BOS nor an EOS token, without which the harness tokenizes no text: pass "
            "prefix_token_id=N in --model_args, N the number of a token that no text begins with"
        )
    check_tokenizer(lm)
    if lm.max_length < 1:
        if lm.backend == "causal":
            check_order(lm, texts)
        raise TargetError(
            f"the model's config states a maximum of {lm.max_length} tokens, which the harness uses as a limit: pass "
            "max_length=N in --model_args, N the number of tokens of its longest training texts"
        )
    plain = _plain_seq2seq(lm, languages or Languages()) if lm.backend == "seq2seq" else HarnessTarget(lm)
    return fast_target(lm, plain, texts, private, lm.prefix_token_id, languages)


def _plain_seq2seq(lm: HFLM, languages: Languages) -> HarnessSeq2Seq | TeacherForced:
    """Return the plain target of a translation model; warn if the harness scores it without its first target token."""
    spoken = speech(lm.model, lm.tokenizer, languages)
    if spoken.lacks_language:
        log.warning(
            "leakage: the tokenizer has language codes, but neither the model nor --metadata names that of the target "
            "language: texts are scored without a code; pass --metadata target_language=…"
        )
    if not spoken.marked:
        return HarnessSeq2Seq(lm)
    if any(getattr(type(lm), name) is not getattr(HFLM, name) for name in ("_loglikelihood_tokens", "_model_call")):
        log.warning(
            "%s uses its own scoring function, in which the decoder cannot begin with '%s': it scores "
            "texts without it: use --model hf",
            type(lm).__name__,
            spoken.words,
        )
        return HarnessSeq2Seq(lm)
    log.info("leakage: the decoder reads '%s' before each target sentence; its cost is not counted", spoken.words)
    return TeacherForced(seq2seq_target(lm, languages=languages))

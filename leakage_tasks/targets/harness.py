"""A harness model as a target: the fast one where it proves equal, else one built on the harness' own requests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial, singledispatch
from typing import Any

import numpy as np
import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.models.huggingface import HFLM

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.errors import TargetError
from leakage_tasks.targets.batches import texts_at_once
from leakage_tasks.targets.causal import LN2, CausalTarget
from leakage_tasks.targets.languages import Languages, speech
from leakage_tasks.targets.protocols import FloatArray
from leakage_tasks.targets.seq2seq import GivenSource, Seq2SeqTarget, Source, source_by_text
from leakage_tasks.targets.teacher_forcing import TeacherForced

log = logging.getLogger("lm_eval.leakage")

TOLERANCE_BITS = 1e-3
"""How far two ways of computing one log-perplexity may differ in float32."""
TOLERANCE_SHARE = 0.02
"""The same in 16-bit precision and below, as a share of the value."""
AHEAD, AHEAD_IN_HALF = 1e-5, 0.1
"""Bits by which a later token may change what a model says of the ones before it, the latter in half precision."""
SOME_TOKENS = 12
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
        from leakage_tasks.targets.harness_context import harness_in_context

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

    An ``HFLM`` (or subclass) for causal models gets :class:`CausalTarget`, one for encoder-decoder models
    :class:`Seq2SeqTarget`, if on ``texts`` (two of them) that agrees with the model's own ``loglikelihood``. If it does
    not, and for every other model, what the harness itself computes is asked for: :class:`HarnessSeq2Seq` and
    :class:`HarnessTarget`. Of an error over texts that are ``private`` the log shows the name alone.

    The harness hands an encoder-decoder model its labels, knows of no forced first token, and lets mBART's decoder
    begin with the *last* token of a text. Where the decoder begins with such a token or a language code
    (:func:`~leakage_tasks.targets.languages.speech`), its figures are therefore of another text, and what the fast way
    has to agree with, and what takes its place if it does not, is one plain forward pass a text
    (:class:`~leakage_tasks.targets.teacher_forcing.TeacherForced`), which shares neither cache nor batch with it.

    ``languages`` are for translation models. Raises TargetError for a code the tokenizer lacks, and for a causal
    ``HFLM`` of which no way gives a text's log-perplexity: its tokenizer has no token for a text to begin with, or it
    reads what follows a token before it tells the token's probability.
    """
    return HarnessTarget(lm)


@as_target.register
def _(lm: HFLM, texts: Sequence[str] = CHECK_TEXTS, private: bool = False, languages: Languages | None = None) -> Any:
    if lm.backend == "causal" and lm.prefix_token_id is None:
        raise TargetError(
            "the tokenizer has neither a BOS nor an EOS token, so no text can be scored from its first token on: pass "
            "prefix_token_id=N in --model_args, N the number of the token that stood before each text in training"
        )
    if lm.max_length < 1:
        if lm.backend == "causal":
            _check_order(lm, texts)
        raise TargetError(
            f"the model's config says that it reads {lm.max_length} tokens, which the harness takes for a limit: pass "
            "max_length=N in --model_args, N the number of tokens of its longest training texts"
        )
    return fast_target(lm, texts, private, lm.prefix_token_id, languages)


def fast_target(
    lm: HFLM, texts: Sequence[str], private: bool, prefix: int | None, languages: Languages | None = None
) -> Any:
    """:func:`as_target` of an ``HFLM``; the texts of a causal one are read after the token ``prefix``."""
    name, translates = type(lm).__name__, lm.backend == "seq2seq"
    plain: Any = _plain_seq2seq(lm, languages or Languages()) if translates else HarnessTarget(lm)
    reasons: list[str] = []
    for cached in (True, False):
        if reasons and not translates:
            _check_order(lm, texts)
        make = (
            partial(seq2seq_target, lm, cached, languages) if translates else partial(causal_target, lm, cached, prefix)
        )
        found = _proved(lm, texts, private, prefix, make, plain)
        if not isinstance(found, str):
            if reasons:
                log.warning(
                    "%s: fast scoring with a cache steps aside: %s; every text is read anew from its first token, with "
                    "the same figures, but more slowly: lower budget=… if it takes too long",
                    *(name, reasons[0]),
                )
            return found
        reasons.append(found)
    for way, reason in zip(("with", "without"), reasons, strict=True):
        log.warning("%s: fast scoring %s a cache steps aside: %s", name, way, reason)
    return plain


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


def _proved(
    lm: HFLM,
    texts: Sequence[str],
    private: bool,
    prefix: int | None,
    make: Callable[[], CausalTarget | Seq2SeqTarget],
    plain: Any,
) -> CausalTarget | Seq2SeqTarget | str:
    """The fast target where it agrees with the ``plain`` way on ``texts``, else why it does not."""
    try:
        target = make()
        return _disagreement(lm, target, texts, prefix, plain) or target
    except Exception as error:
        said = "" if private else " ".join(str(error).split())[:200]
        kind = type(error).__name__
        return said if said and isinstance(error, TargetError) else f"{kind}: {said}" if said else kind


def causal_target(lm: HFLM, cached: bool = True, prefix: int | None = None) -> CausalTarget:
    """The fast target for a causal ``HFLM``, with its device, precision, batch size and length.

    Texts are read after the token ``prefix``, where none is given after the harness' own.
    """
    prefix = lm.prefix_token_id if prefix is None else prefix
    return CausalTarget(lm.model, lm.tokenizer, prefix_token=prefix, cached=cached, **_settings(lm))


def seq2seq_target(lm: HFLM, cached: bool = True, languages: Languages | None = None) -> Seq2SeqTarget:
    """The same for an encoder-decoder ``HFLM``, with its way of reading a context unless a language is named for it."""
    own_way = lm.tok_encode if languages is None or languages.source is None else None
    settings = _settings(lm)
    return Seq2SeqTarget(lm.model, lm.tokenizer, encode_source=own_way, cached=cached, languages=languages, **settings)


def _settings(lm: HFLM) -> dict[str, Any]:
    return {
        "device": lm.device,
        "batch_size": texts_at_once(lm.batch_size),
        "max_length": lm.max_length,
        "autocast": lm.mixed_precision_dtype,
    }


def _check_order(lm: HFLM, texts: Sequence[str]) -> None:
    """Raise TargetError where another last token changes what a causal ``HFLM`` says of the tokens before it."""
    try:
        target = causal_target(lm, cached=False, prefix=0)
        row = [token for tokens in target.encode(texts) for token in tokens][:SOME_TOKENS]
        rows = torch.tensor([row, [*row[:-1], int(row[-1] == 0)]], device=target.device)
        with target.inference():
            said = target.read(rows, len(row), remember=False)[0][:, :-1].log_softmax(-1)
        changed = float((said[0] - said[1]).abs().max()) / LN2
    except Exception:  # what keeps a model from being read at all is told as the reason why the fast way steps aside
        return
    if changed > (AHEAD_IN_HALF if in_half_precision(lm.model, lm.mixed_precision_dtype) else AHEAD):
        raise TargetError(
            f"{type(lm.model).__name__} reads what comes after a token before it tells the token's probability, so it "
            "gives texts no log-likelihood: use a model that predicts the next token"
        )


def _disagreement(
    lm: HFLM, target: CausalTarget | Seq2SeqTarget, texts: Sequence[str], prefix: int | None, plain: Any
) -> str | None:
    """How far the fast target is from the ``plain`` way on two texts, or None if it is close enough.

    An encoder-decoder model reads the first of them as the source of both.
    """
    if isinstance(target, Seq2SeqTarget):
        source = target.source_tokens(texts[0])[-target.max_length :]
        encoded = [tokens[: target.longest_target] for tokens in target.encode(texts)]
        requests = [((texts[0], text), source, tokens) for text, tokens in zip(texts, encoded, strict=True)]
        ours = _stepped(GivenSource(target, source), encoded)
    else:
        encoded = [tokens[: target.max_length] for tokens in target.encode(texts)]
        requests = [(("", text), *_split(prefix, tokens)) for text, tokens in zip(texts, encoded, strict=True)]
        ours = _stepped(target, encoded)
    if isinstance(plain, TeacherForced):
        whose, theirs = "a plain forward pass'", np.array([plain.bits(*request[1:]) for request in requests])
    else:
        # A fixed batch size keeps the harness from its batch-size search, which every process would have to join.
        answers = lm._loglikelihood_tokens(requests, disable_tqdm=True, override_bs=len(requests))
        whose, theirs = "the harness'", np.array([-answer[0] / LN2 for answer in answers])
    allowed = np.maximum(
        TOLERANCE_BITS, TOLERANCE_SHARE * theirs if in_half_precision(lm.model, lm.mixed_precision_dtype) else 0.0
    )
    if np.all(np.abs(ours - theirs) <= allowed):
        return None
    return f"log-perplexity {ours.round(4).tolist()} against {whose} {theirs.round(4).tolist()} bits"


def in_half_precision(model: Any, autocast: Any) -> bool:
    """Whether a model computes in 16 bits or fewer, by its weights or by the mixed precision ``autocast``."""
    return autocast is not None or any(parameter.element_size() < 4 for parameter in model.parameters())


def _split(prefix: int | None, tokens: list[int]) -> tuple[list[Any], list[int]]:
    """The harness' rule for an empty context."""
    return ([prefix], tokens) if tokens[0] != prefix else ([prefix], tokens[1:])


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

"""The fast target of an ``HFLM``, which calls the torch model directly instead of the harness' requests. Before its
use, its scores are compared with the harness' own."""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from typing import Any

import numpy as np

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import MissingEmbeddingError, OptionError, TargetError
from leakage_tasks.core.log import log
from leakage_tasks.harness.hf import HFLM
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.batches import texts_at_once
from leakage_tasks.targets.causal.later_tokens import check_later_tokens
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.full_float32 import full_float32
from leakage_tasks.targets.harness.float32_sums import float32_sums
from leakage_tasks.targets.noise import agree
from leakage_tasks.targets.seq2seq.languages import Languages
from leakage_tasks.targets.seq2seq.target import GivenSource, Seq2SeqTarget, TeacherForced

SOME_TOKENS = 12


def fast_target(
    lm: HFLM,
    plain: Any,
    texts: Sequence[str],
    private: bool,
    prefix: int | None,
    languages: Languages | None = None,
) -> Any:
    """Return the fast target of an ``HFLM`` if it agrees with the ``plain`` target on ``texts``, else ``plain``.

    Args:
        lm: the harness model.
        plain: the target that scores with the harness' own function.
        texts: two texts to compare the targets on.
        private: if true, the log shows only the name of an error over ``texts``.
        prefix: the token before the texts of a causal model.
        languages: the languages of a translation model.
    """
    name, translates = type(lm).__name__, lm.backend == "seq2seq"
    reasons: list[str] = []
    for cached in (True, False):
        if reasons and not translates:
            check_order(lm, texts)
        try:
            target: CausalTarget | Seq2SeqTarget
            target = seq2seq_target(lm, cached, languages) if translates else causal_target(lm, cached, prefix)
            reason = _disagreement(lm, target, texts, prefix, plain)
        except (OptionError, MissingEmbeddingError):
            raise
        except Exception as error:
            message = "" if private else " ".join(str(error).split())[:200]
            kind = type(error).__name__
            reason = (
                message if message and isinstance(error, TargetError) else f"{kind}: {message}" if message else kind
            )
        if reason is None:
            if reasons:
                log.warning(
                    "%s: fast scoring with a cache is off: %s; every text is read from its first token instead, with "
                    "equal results, but up to %d times as slowly: lower budget=… if it takes too long",
                    *(name, reasons[0], max(map(len, target.encode(texts)))),
                )
            return target
        reasons.append(reason)
    for mode, reason in zip(("with", "without"), reasons, strict=True):
        log.warning("%s: fast scoring %s a cache is off: %s", name, mode, reason)
    log.warning(
        "%s: the harness' own loglikelihood is used instead: it reads each filling from its first token (up to about "
        "%d times as slowly) and allows no search: ranks in large spaces are estimated from samples",
        *(name, max(len(lm.tok_encode(text)) for text in texts)),
    )
    return plain


def causal_target(lm: HFLM, cached: bool = True, prefix: int | None = None) -> CausalTarget:
    """Return the fast target for a causal ``HFLM``, with the device, precision, batch size and length of ``lm``.

    Texts are read after the token ``prefix``, by default the harness' prefix token.
    """
    prefix = lm.prefix_token_id if prefix is None else prefix
    return CausalTarget(lm.model, lm.tokenizer, prefix_token=prefix, cached=cached, **_settings(lm))


def seq2seq_target(lm: HFLM, cached: bool = True, languages: Languages | None = None) -> Seq2SeqTarget:
    """Return the fast target for an encoder-decoder ``HFLM``.

    The source is tokenized by the harness model, unless ``languages`` name a source language.
    """
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


def check_order(lm: HFLM, texts: Sequence[str]) -> None:
    """Raise TargetError if a later token changes the probabilities that a causal ``HFLM`` gives earlier tokens."""
    try:
        target = causal_target(lm, cached=False, prefix=0)
        row = [token for tokens in target.encode(texts) for token in tokens][:SOME_TOKENS]
    except Exception:  # a model that cannot be read at all is reported as the reason why fast scoring is off
        return
    check_later_tokens(target, row)


def _disagreement(
    lm: HFLM, target: CausalTarget | Seq2SeqTarget, texts: Sequence[str], prefix: int | None, plain: Any
) -> str | None:
    """Return a description of the difference between the fast and the ``plain`` target on two texts, None if small.

    An encoder-decoder model reads the first text as the source of both.
    """
    if isinstance(target, Seq2SeqTarget):
        source = target.source_tokens(texts[0])[-target.max_length :]
        encoded = [tokens[: target.longest_target] for tokens in target.encode(texts)]
        requests = [((texts[0], text), source, tokens) for text, tokens in zip(texts, encoded, strict=True)]
        read: CausalTarget = GivenSource(target, source)
    else:
        encoded = [tokens[: target.max_length] for tokens in target.encode(texts)]
        requests = [(("", text), *_split(prefix, tokens)) for text, tokens in zip(texts, encoded, strict=True)]
        read = target
    ours = _step_through(read, encoded)
    if read.cached and not read.engine.cached:
        return "passes after a cached state differ from passes over whole texts"
    if isinstance(plain, TeacherForced):
        whose, theirs = "a plain forward pass'", np.array([plain.bits(*request[1:]) for request in requests])
    else:
        # A fixed batch size keeps the harness from its batch-size search, which every process would have to join.
        with full_float32(target.device), float32_sums(lm):
            answers = lm._loglikelihood_tokens(requests, disable_tqdm=True, override_bs=len(requests))
        whose, theirs = "the harness'", np.array([-answer[0] / LN2 for answer in answers])
    if agree(target, ours, theirs, [len(tokens) for tokens in encoded]):
        return None
    return f"log-perplexity {ours.round(4).tolist()} against {whose} {theirs.round(4).tolist()} bits"


def _split(prefix: int | None, tokens: list[int]) -> tuple[list[Any], list[int]]:
    """Return context and continuation by the harness' rule for an empty context."""
    return ([prefix], tokens) if tokens[0] != prefix else ([prefix], tokens[1:])


def _step_through(target: CausalTarget, encoded: Sequence[list[int]]) -> FloatArray:
    """Return log-perplexities as an attack computes them: the shared prefix at once, then one token at a time.

    The texts are rows of one batch, so that a cache that mixes up rows or positions is detected.
    """
    shared = min(len(os.path.commonprefix(encoded)), min(map(len, encoded)) - 1)
    columns = np.unique(np.concatenate([np.array(tokens) for tokens in encoded]))
    state, cost, costs = target.start(encoded[0][:shared], columns)
    totals, rows = np.full(len(encoded), cost), np.zeros(len(encoded), dtype=np.int64)
    alive = np.arange(len(encoded))
    for depth in range(shared, max(map(len, encoded))):
        fed = np.array([encoded[int(text)][depth] for text in alive])
        totals[alive] += costs[rows, np.searchsorted(columns, fed)]
        onward = np.array([len(encoded[int(text)]) > depth + 1 for text in alive])
        if onward.any():
            state, costs = target.extend(state[rows[onward]], fed[onward], columns)
        alive, rows = alive[onward], np.arange(int(onward.sum()))
    return totals

"""Suffixes from harness models that read and write only text: vllm, APIs, and any other model of the harness."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import log
from leakage_tasks.harness.api import LM
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.harness.faults import class_names
from leakage_tasks.targets.harness.target import HarnessTarget, only_writes
from leakage_tasks.targets.harness.texts import DECODED_ALONE, HarnessTexts, text_tokens
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.sampled_suffixes import SampledSuffixes, SuffixCosts

Row = tuple[int, ...]
MISSING = -1
"""Placeholder for each token that a sample lacks; never equal to a true token."""
RESERVED = 2
"""Tokens of the context to leave free: a BOS token, and a token that some models must generate in order to score."""
ASSUMED_VOCABULARY = 1 << 16
TOGETHER, DRAWS_TOGETHER = 64, 6_400
"""Maximum number of pairs, and of samples, in one request for samples."""
WARN_SAMPLES = 200
"""Number of samples from which a warning is issued if all samples after each prefix agree."""


class HarnessSuffixes:
    """Suffixes by ``generate_until`` with repeats, then ``loglikelihood`` of the distinct suffixes.

    Implements :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`. The text of a sample after the prefix is
    tokenized with ``tokenizer`` (a name or an object), by default the model's own. A sample with too few tokens is
    filled up with −1, which is never correct; each such token has the cost of a blind guess (log2 of the vocabulary).
    All tokens of a sample have this cost if a token of the text spans the end of the prefix. Only the total cost of a
    suffix is known; it is divided evenly among its tokens. With a sampling scheme that changes the model's
    distribution, the cost under the scheme is unknown: ``drawn`` is then the model's own cost for samples, and None for
    a true suffix. A model without log-likelihoods gives no costs, but can be sampled from.

    These models use their own random numbers, so the seed of a run does not make it repeatable. Exceptions are
    ``vllm``, which accepts a seed for each sample, and servers that use the seed in requests sent one by one. A server
    may add its own settings, such as a repetition penalty from a generation_config.

    Raises TargetError for a model without a usable tokenizer, and for a batch size that makes processes wait for each
    other.
    """

    on_drawn: Callable[[float], None] | None = None

    def __init__(self, lm: LM, tokenizer: Any = None) -> None:
        most = HarnessTarget(lm).max_length
        self.only_writes = only_writes(lm)
        self.totals_only = not self.only_writes
        self._lm = lm
        self._model = HarnessTexts(lm)
        self._tokens = text_tokens(lm, tokenizer)
        self._decoded_alone = bool(DECODED_ALONE.intersection(class_names(lm)))
        self.vocabulary = self._tokens.vocabulary
        self.max_length = most - RESERVED if isinstance(most, int) else None
        self._blind = math.log2(self.vocabulary or ASSUMED_VOCABULARY)

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of token rows, without missing tokens."""
        return self._tokens.decode([[token for token in row if token != MISSING] for row in rows])

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of texts, without special tokens."""
        return self._tokens.encode(texts)

    def unfit(self, pair: Pair) -> str | None:
        """Return the reason why the model would not read, return or score exactly the pair's tokens, or None.

        The pair's tokens must not change when they are decoded to text and tokenized again: this must hold for the
        prefix alone, and for the prefix with the suffix, whose text must begin with the prefix's text. The suffix must
        not contain special tokens, because models do not return them as text.
        """
        if self._tokens.special.intersection(pair.suffix):
            return "its suffix holds a special token, which the text that the model returns never contains"
        whole = [*pair.prefix, *pair.suffix]
        before, both, alone = self.decode([pair.prefix, whole, pair.suffix])
        if reason := self._unfit_prefix(pair.prefix, before):
            return reason
        if not both.startswith(before):
            return "a character has tokens in both its prefix and its suffix"
        if self.encode([both])[0] != whole:
            return "its text has other tokens"
        if self._decoded_alone and both != before + alone:
            return "the text of its suffix alone, as the model returns it, is different from its text after the prefix"
        return None

    def draw(
        self, prefixes: Sequence[Sequence[int]], uniforms: FloatArray, scheme: DecodingConfig
    ) -> list[SampledSuffixes]:
        """Sample by ``scheme`` after prefixes of one length.

        Raises OptionError for beam search, and TargetError for models that do not sample and for prefixes whose text
        has other tokens.
        """
        befores = self._prefix_texts(prefixes)
        samples, length = uniforms.shape[1] if scheme.decoding == "sample" else 1, uniforms.shape[2]
        repeated = [before for before in befores for _ in range(samples)]
        texts = self._model.sample(repeated, uniforms[:, :samples, 0].flatten(), scheme, length)
        drawn = [
            self._distinct(prefix, before, texts[index * samples : (index + 1) * samples], length)
            for index, (prefix, before) in enumerate(zip(prefixes, befores, strict=True))
        ]
        self._check_differing(samples, [len(rows) for rows, _ in drawn])
        if self.only_writes:
            return [_draws(*sample, None) for sample in drawn]
        pairs = [(prefix, row) for prefix, (rows, _) in zip(prefixes, drawn, strict=True) for row in rows]
        costs = iter(self._costs(pairs))
        return [_draws(rows, draw_rows, [next(costs) for _ in rows]) for rows, draw_rows in drawn]

    def score(
        self, prefixes: Sequence[Sequence[int]], suffixes: Sequence[Sequence[int]], scheme: DecodingConfig
    ) -> list[SuffixCosts]:
        """Return the costs of each suffix after its prefix. Raises TargetError for pairs that are unfit."""
        pairs = list(zip(prefixes, suffixes, strict=True))
        for prefix, suffix in pairs:
            _survives(self.unfit(Pair(0, tuple(prefix), tuple(suffix))))
        return [SuffixCosts(cost, cost if scheme.plain else None) for cost in self._costs(pairs)]

    def costs_after(
        self, prefixes: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]
    ) -> list[FloatArray]:
        """Return costs in bits of each continuation after its prefix, spread evenly over the continuation's tokens."""
        self._prefix_texts(list(dict.fromkeys(map(tuple, prefixes))))
        return self._costs(list(zip(prefixes, continuations, strict=True)))

    def pairs_at_once(self, pair: Pair, samples: int) -> int:
        return max(1, min(TOGETHER, DRAWS_TOGETHER // samples))

    def _check_differing(self, samples: int, distinct: Sequence[int]) -> None:
        if samples > 1 and max(distinct) == 1 and samples * len(distinct) >= WARN_SAMPLES:
            log.warning(
                "%s gave one text %d times after each of %d prefixes: unless all are memorized, it does not sample: "
                "check its settings, or use decoding=greedy",
                class_names(self._lm)[0],
                samples,
                len(distinct),
            )

    def _prefix_texts(self, prefixes: Sequence[Sequence[int]]) -> list[str]:
        texts = self.decode(prefixes)
        for prefix, text in zip(prefixes, texts, strict=True):
            _survives(self._unfit_prefix(prefix, text))
        return texts

    def _unfit_prefix(self, prefix: Sequence[int], text: str) -> str | None:
        """Return the reason why the model would read a prefix with text ``text`` as other tokens, or None.

        The harness scores white space at a context's end with the continuation, so a token must begin there.
        """
        trimmed = text.rstrip()
        if not trimmed:
            return "its prefix is only white space"
        whole, begun = self.encode([text, trimmed])
        if whole != list(prefix):
            return "the text of its prefix has other tokens"
        if begun != whole[: len(begun)]:
            return "white space at the end of its prefix shares a token with the text before it"
        return None

    def _distinct(
        self, prefix: Sequence[int], before: str, texts: Sequence[str], length: int
    ) -> tuple[list[Row], list[int]]:
        """Return the distinct rows of ``length`` tokens among the texts after a prefix, and the row index of each
        text."""
        rows: dict[str, Row] = {}
        distinct = list(dict.fromkeys(texts))
        for text, tokens in zip(distinct, self.encode([before + text for text in distinct]), strict=True):
            after = tokens[len(prefix) :] if _begins(tokens, prefix) else self.encode([text])[0]
            rows[text] = (*after[:length], *[MISSING] * (length - len(after)))
        numbers = {row: index for index, row in enumerate(dict.fromkeys(rows.values()))}
        return list(numbers), [numbers[rows[text]] for text in texts]

    def _costs(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[FloatArray]:
        """Return costs in bits of each row of tokens after its prefix, spread evenly over the row."""
        befores = self.decode([prefix for prefix, _ in pairs])
        boths = self.decode([[*prefix, *row] for prefix, row in pairs])
        totals = [len(row) * self._blind for _, row in pairs]
        known: dict[int, tuple[str, str]] = {}
        for index, tokens in enumerate(self.encode(boths)):
            (prefix, row), before, both = pairs[index], befores[index], boths[index]
            if _begins(tokens, prefix) and len(tokens) > len(prefix) and both.startswith(before):
                known[index] = (before, both[len(before) :])
                totals[index] = self._blind * sum(token == MISSING for token in row)
        for index, bits in zip(known, self._model.bits(list(known.values())), strict=True):
            totals[index] += bits
        return [np.full(len(row), total / len(row)) for (_, row), total in zip(pairs, totals, strict=True)]


def _begins(tokens: Sequence[int], prefix: Sequence[int]) -> bool:
    return list(tokens[: len(prefix)]) == list(prefix)


def _survives(reason: str | None) -> None:
    if reason is not None:
        raise TargetError(
            f"a pair cannot be passed as text ({reason}): leave it out, or use --model hf, which accepts tokens"
        )


def _draws(rows: Sequence[Row], draw_rows: Sequence[int], costs: Sequence[FloatArray] | None) -> SampledSuffixes:
    tokens, which = (np.array(part, dtype=np.int64) for part in (rows, draw_rows))
    costs_by_token = None if costs is None else np.stack(costs)
    return SampledSuffixes(
        tokens, which, costs_by_token, drawn=costs_by_token, entropy=None, margin=None, totals_only=True
    )

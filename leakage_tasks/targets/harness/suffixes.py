"""Suffixes from harness models that take nothing but text: vllm, APIs, and whatever else answers the harness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import log
from leakage_tasks.harness.api import LM
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.harness.faults import kinds
from leakage_tasks.targets.harness.target import HarnessTarget, only_writes
from leakage_tasks.targets.harness.texts import (
    SPOKEN_ALONE,
    HarnessTexts,
    check_decoding,
    generation_settings,
    text_tokens,
)
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.sampled_suffixes import SampledSuffixes, SuffixCosts

Row = tuple[int, ...]
MISSING = -1
"""Stands for every token that a draw has too few of; never equal to a true one."""
RESERVED = 2
"""Tokens of the context that may not be there for us: a BOS token, and the one that a model must generate to score."""
UNSAID_VOCABULARY = 1 << 16
TOGETHER, DRAWS_TOGETHER = 64, 6_400
"""Pairs whose draws are asked for at once, and draws of them."""
ALIKE = 200
"""So many draws and never two that differ after one prefix: the model may not be sampling at all."""


class HarnessSuffixes:
    """Suffixes through ``generate_until`` with repeats, then ``loglikelihood`` of the distinct ones.

    Implements :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`. Tokens are those of ``tokenizer`` (a name, or
    one as it is), by default the model's own; a draw's are those of its text where it stands, after the prefix. A draw
    that the model ended early, or whose text has fewer tokens than were drawn, is filled up with −1, each at the cost
    of a blind guess (log2 of the vocabulary): as it stands it cannot be right. One whose text shares a token with the
    prefix costs that all through. Costs are known as totals and spread evenly over a suffix's tokens. Nothing tells
    what a suffix costs under a scheme that is not plain: ``drawn`` is a draw's own cost there, and None for a true one.
    A model that gives no log-likelihoods tells no cost at all, and can be drawn from all the same.

    Such models make their own random numbers, so that a run does not repeat with our seed, but for ``vllm``, which
    takes a seed a draw, and for servers that heed it in requests sent one by one. A server may add settings of its own,
    such as a repetition penalty from a generation_config.
    Raises TargetError for a model without a usable tokenizer and for a batch size that makes processes wait.
    """

    def __init__(self, lm: LM, tokenizer: Any = None) -> None:
        most = HarnessTarget(lm).max_length
        self.only_writes = only_writes(lm)
        self.totals_only = not self.only_writes
        self._lm = lm
        self._model = HarnessTexts(lm)
        self._tokens = text_tokens(lm, tokenizer)
        self._spoken_alone = bool(SPOKEN_ALONE.intersection(kinds(lm)))
        self.vocabulary = self._tokens.vocabulary
        self.max_length = most - RESERVED if isinstance(most, int) else None
        self._blind = math.log2(self.vocabulary or UNSAID_VOCABULARY)

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Texts of token rows, without what is missing of them."""
        return self._tokens.decode([[token for token in row if token != MISSING] for row in rows])

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of texts, without special ones."""
        return self._tokens.encode(texts)

    def unfit(self, pair: Pair) -> str | None:
        """Why the model would read, return or score other tokens than the pair's, None if it would not.

        The text of the prefix must have the prefix's tokens; that of both must begin with it and have the tokens of
        both, so that a verbatim suffix has its tokens again. No text that a model returns holds a special token.
        """
        if self._tokens.special.intersection(pair.suffix):
            return "its suffix holds a special token, which is no part of the text that the model returns"
        whole = [*pair.prefix, *pair.suffix]
        before, both, alone = self.decode([pair.prefix, whole, pair.suffix])
        if why := self._unfit_prefix(pair.prefix, before):
            return why
        if not both.startswith(before):
            return "a character has tokens in both its prefix and its suffix"
        if self.encode([both])[0] != whole:
            return "its text has other tokens"
        if self._spoken_alone and both != before + alone:
            return "its suffix is another text by itself, as the model returns it, than after its prefix"
        return None

    def draw(
        self, prefixes: Sequence[Sequence[int]], uniforms: FloatArray, scheme: DecodingConfig
    ) -> list[SampledSuffixes]:
        """See :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`.

        Raises OptionError for beam search, TargetError for prefixes that do not survive the way through text and for
        models that do not sample.
        """
        check_decoding(self._lm, scheme)
        befores = self._prefix_texts(prefixes)
        samples, length = uniforms.shape[1] if scheme.decoding == "sample" else 1, uniforms.shape[2]
        texts = self._model.continuations(
            [
                (before, generation_settings(self._lm, scheme, length, float(numbers[0])))
                for before, uniform in zip(befores, uniforms, strict=True)
                for numbers in uniform[:samples]
            ]
        )
        drawn = [
            self._distinct(prefix, before, texts[index * samples : (index + 1) * samples], length)
            for index, (prefix, before) in enumerate(zip(prefixes, befores, strict=True))
        ]
        self._check_differing(samples, [len(rows) for rows, _ in drawn])
        if self.only_writes:
            return [_draws(*each, None) for each in drawn]
        asked = [(prefix, row) for prefix, (rows, _) in zip(prefixes, drawn, strict=True) for row in rows]
        costs = iter(self._costs(asked))
        return [_draws(rows, of_draw, [next(costs) for _ in rows]) for rows, of_draw in drawn]

    def score(
        self, prefixes: Sequence[Sequence[int]], suffixes: Sequence[Sequence[int]], scheme: DecodingConfig
    ) -> list[SuffixCosts]:
        """See :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`. Raises TargetError for pairs that are unfit."""
        asked = list(zip(prefixes, suffixes, strict=True))
        for prefix, suffix in asked:
            _survives(self.unfit(Pair(0, tuple(prefix), tuple(suffix))))
        return [SuffixCosts(cost, cost if scheme.plain else None) for cost in self._costs(asked)]

    def costs_after(
        self, prefixes: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]
    ) -> list[FloatArray]:
        """See :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`; a continuation's bits spread evenly over it."""
        self._prefix_texts(list(dict.fromkeys(map(tuple, prefixes))))
        return self._costs(list(zip(prefixes, continuations, strict=True)))

    def pairs_at_once(self, pair: Pair, samples: int) -> int:
        """See :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`."""
        return max(1, min(TOGETHER, DRAWS_TOGETHER // samples))

    def _check_differing(self, samples: int, distinct: Sequence[int]) -> None:
        if samples > 1 and max(distinct) == 1 and samples * len(distinct) >= ALIKE:
            log.warning(
                "%s gave one text %d times after each of %d prefixes: unless all are memorized, it does not sample; "
                "look at its settings, or use decoding=greedy",
                kinds(self._lm)[0],
                samples,
                len(distinct),
            )

    def _prefix_texts(self, prefixes: Sequence[Sequence[int]]) -> list[str]:
        texts = self.decode(prefixes)
        for prefix, text in zip(prefixes, texts, strict=True):
            _survives(self._unfit_prefix(prefix, text))
        return texts

    def _unfit_prefix(self, prefix: Sequence[int], text: str) -> str | None:
        """Why the model would not read a prefix, whose text is ``text``, as its tokens.

        The harness scores white space at a context's end with what follows, so the tokens must be cut there too.
        """
        trimmed = text.rstrip()
        if not trimmed:
            return "its prefix is white space alone"
        whole, begun = self.encode([text, trimmed])
        if whole != list(prefix):
            return "the text of its prefix has other tokens"
        if begun != whole[: len(begun)]:
            return "white space at the end of its prefix shares a token with what stands before it"
        return None

    def _distinct(
        self, prefix: Sequence[int], before: str, texts: Sequence[str], length: int
    ) -> tuple[list[Row], list[int]]:
        """The distinct rows of ``length`` tokens that ``texts`` are after a prefix, and which of them each text is."""
        rows: dict[str, Row] = {}
        each = list(dict.fromkeys(texts))
        for text, tokens in zip(each, self.encode([before + text for text in each]), strict=True):
            after = tokens[len(prefix) :] if _begins(tokens, prefix) else self.encode([text])[0]
            rows[text] = (*after[:length], *[MISSING] * (length - len(after)))
        places = {row: index for index, row in enumerate(dict.fromkeys(rows.values()))}
        return list(places), [places[rows[text]] for text in texts]

    def _costs(self, asked: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[FloatArray]:
        """Own costs in bits of each row of tokens after its prefix, spread evenly over the row."""
        befores = self.decode([prefix for prefix, _ in asked])
        boths = self.decode([[*prefix, *row] for prefix, row in asked])
        totals = [len(row) * self._blind for _, row in asked]
        known: dict[int, tuple[str, str]] = {}
        for index, tokens in enumerate(self.encode(boths)):
            (prefix, row), before, both = asked[index], befores[index], boths[index]
            if _begins(tokens, prefix) and len(tokens) > len(prefix) and both.startswith(before):
                known[index] = (before, both[len(before) :])
                totals[index] = self._blind * sum(token == MISSING for token in row)
        for place, bits in zip(known, self._model.bits(list(known.values())), strict=True):
            totals[place] += bits
        return [np.full(len(row), total / len(row)) for (_, row), total in zip(asked, totals, strict=True)]


def _begins(tokens: Sequence[int], prefix: Sequence[int]) -> bool:
    return list(tokens[: len(prefix)]) == list(prefix)


def _survives(why: str | None) -> None:
    if why is not None:
        raise TargetError(
            f"a pair does not survive the way through text ({why}): leave it out, or use --model hf, which takes tokens"
        )


def _draws(rows: Sequence[Row], of_draw: Sequence[int], costs: Sequence[FloatArray] | None) -> SampledSuffixes:
    tokens, which = (np.array(each, dtype=np.int64) for each in (rows, of_draw))
    own = None if costs is None else np.stack(costs)
    return SampledSuffixes(tokens, which, own, drawn=own, entropy=None, margin=None, totals_only=True)

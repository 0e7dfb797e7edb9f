"""Translation models as targets: the cost of a target sentence given its source sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.canaries.canary import Canary, source_space_of
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.attack_coroutine import submit
from leakage_tasks.targets.batches import check_fits, padded, row_bits
from leakage_tasks.targets.batching import Capacity
from leakage_tasks.targets.causal.engine import Engine
from leakage_tasks.targets.causal.reader import TextModel
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.noise import Noise
from leakage_tasks.targets.pass_rows import rows_at_once
from leakage_tasks.targets.rounding import SENTENCES, measure, text_rows
from leakage_tasks.targets.seq2seq.decoder import Decoder
from leakage_tasks.targets.seq2seq.languages import Languages, speech
from leakage_tasks.targets.seq2seq.source import SourceSentence
from leakage_tasks.targets.token_ids import ALONE
from leakage_tasks.targets.tokens.automaton import parse
from leakage_tasks.targets.tokens.tries import Tries

ROWS = 512
"""Maximum number of sentence pairs in a pass."""
Source = Callable[[str], str]
"""Function that returns the source sentence of a target sentence."""


def source_by_text(canary: Canary) -> Source:
    """Return a function that gives the source sentence of each filled text of a canary.

    If the source also contains the secret, the text is parsed to find its filling; the function raises TargetError for
    a text with several possible fillings. Also raises TargetError for a canary without a source sentence.
    """
    source = source_space_of(canary)
    if not source.slots:
        fixed = source.fill(())
        return lambda text: fixed

    def filled(text: str) -> str:
        fillings = parse(canary.attack_space, text)
        if len(fillings) != 1:
            raise TargetError(
                f"{len(fillings)} fillings spell one text of this template, so its source sentence is not known: put "
                "something between the slots, or use values of one length"
            )
        return source.fill(fillings[0])

    return filled


class Seq2SeqTarget(TextModel):
    """An encoder-decoder model, which reads a source sentence before it writes; implements ``ReadsSource``.

    The cost of a target sentence is its log-perplexity given the source (The Secret Sharer, section 7.4), as the
    harness scores a continuation with such models: the decoder begins with its start token, and the target's tokens are
    the tokenizer's labels (``text_target``) without special tokens, so neither a BOS token nor the end of the sentence
    is scored. The source has all special tokens that the tokenizer adds, or the tokens that ``encode_source`` returns.
    The harness tokenizes a target like a source, so its tokens differ from these with a tokenizer that has two
    vocabularies (Marian).

    If ``generate`` forces a first token (M2M100, NLLB, mBART: the code of the target's language), the decoder also
    reads it before the target, and its cost is not counted (:func:`~leakage_tasks.targets.seq2seq.languages.speech`).
    Raises TargetError for a code of ``languages`` that the tokenizer does not have, and for a model without a start
    token. ``settings`` are the arguments of :class:`~leakage_tasks.targets.causal.reader.TextModel`.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        encode_source: Callable[[str], list[int]] | None = None,
        languages: Languages | None = None,
        **settings: Any,
    ) -> None:
        spoken = speech(model, tokenizer, languages or Languages())
        if not spoken.opening:
            raise TargetError(
                "the model's config has no decoder_start_token_id: set it to the token its decoder begins with"
            )
        super().__init__(model, spoken.tokenizer, **settings)
        self.opening = spoken.opening
        self.marked = spoken.marked
        self.source_tokens = encode_source or spoken.tokenizer.encode
        self.decoder = Decoder(self.model, self.device, lambda: self.noise, self.opening[:-1])
        self.engines: dict[bool, Engine] = {}
        self.tries = Tries()

    def given(self, canary: Canary) -> GivenSource | FilledSource:
        """Return a target for a canary; with a fixed source it can be searched like a causal model.

        Raises TargetError for a fixed source that is too long for the model.
        """
        source = canary.source_space
        if source is not None and not source.slots:
            return self.after(source.fill(()))
        return FilledSource(self, source_by_text(canary))

    def after(self, source: str) -> GivenSource:
        """Return the model after one source sentence. Raises TargetError if it is too long."""
        return GivenSource(self, self.encode_source(source))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of target sentences, without special tokens.

        Raises TargetError if a token has no embedding.
        """
        rows: list[list[int]] = self.tokenizer(text_target=list(texts), add_special_tokens=False, **ALONE)["input_ids"]
        self.embedded.check(rows)
        return rows

    def encode_source(self, text: str) -> list[int]:
        """Return the tokens of a source sentence, with special tokens.

        Raises TargetError if the model cannot read them all.
        """
        tokens = self.source_tokens(text)
        self.embedded.check([tokens], "a source sentence")
        if len(tokens) > self.max_length:
            raise TargetError(
                f"a source sentence of {len(tokens)} tokens does not fit the model's {self.max_length}: shorten it"
            )
        return tokens

    def teacher_forced_logits(self, source: Tensor, mask: Tensor, written: Tensor) -> Tensor:
        """Return logits ``[n, length, V]`` in float32 after each token ``[n, length]`` that the decoder has written."""
        with self.inference():
            out = self.model(input_ids=source, attention_mask=mask, decoder_input_ids=written, use_cache=False)
            return out.logits.float()

    @cached_property
    def noise(self) -> Noise:
        """Rounding noise of target tokens' costs, measured after one source sentence."""
        source = torch.tensor([self.source_tokens(SENTENCES[0])[: self.max_length]], device=self.device)
        rows = text_rows(self.encode, self.vocabulary, self.longest_target).to(self.device)
        opening = torch.tensor([self.opening], device=self.device)

        def read(tokens: Tensor, keep: int) -> Tensor:
            sources, begun = source.expand(len(tokens), -1), opening.expand(len(tokens), -1)
            written = torch.cat([begun, tokens], dim=1)
            return self.teacher_forced_logits(sources, torch.ones_like(sources), written)[:, -keep:]

        return measure(self.model, read, rows, self.vocabulary)

    @property
    def longest_target(self) -> int:
        """Maximum number of target tokens that fit in the decoder after the opening."""
        return self.max_length - len(self.opening) + 1


class GivenSource(CausalTarget):
    """A translation model after one source sentence, searched like a causal model.

    Implements ``ScoresSequences`` and ``PredictsNextToken``. Searches after all sources share passes.
    """

    def __init__(self, family: Seq2SeqTarget, source: Sequence[int]) -> None:
        super().__init__(
            family.decoder,
            family.tokenizer,
            device=family.device,
            batch_size=family.batch_size,
            prefix_token=family.opening[-1],
            max_length=family.longest_target,
            autocast=family.autocast,
            cached=family.cached,
        )
        self._family, self._source_tokens = family, tuple(source)
        self.spelling, self.states = family.spelling, family.states
        self._engines, self._tries = family.engines, family.tries
        self.pass_rows = replace(family.pass_rows, max_length=self.max_length)
        self.most_padding = family.most_padding

    @property
    def noise(self) -> Noise:
        """Noise of the translation model, independent of the source."""
        return self._family.noise

    @property
    def source(self) -> SourceSentence:
        """Source sentence; the model's results for it are kept as long as a search references it."""
        return self._family.decoder.source(self._source_tokens)

    def row_costs(self, encoded: Sequence[list[int]]) -> FloatArray:
        """Return costs in bits ``[n]``; the source is read once for all rows."""
        held = self.source
        costs = super().row_costs(encoded)
        del held
        return costs

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of target sentences, without special tokens."""
        return self._family.encode(texts)

    def _with_prefix_token(self, tokens: Sequence[int]) -> list[int]:
        # The opening precedes every text, even a text that begins with it.
        return [self._prefix_token, *tokens]


class FilledSource:
    """A translation model whose source sentence also contains the secret; implements ``ScoresSequences``.

    The source changes the cost of every token, so no path can be pruned: whole pairs are scored.
    """

    def __init__(self, family: Seq2SeqTarget, source: Source) -> None:
        self.max_length = family.longest_target
        self._family = family
        self._source = source

    def length(self, text: str) -> int:
        """Return the number of tokens of a target sentence, without the opening."""
        return len(self._family.encode([text])[0])

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """Return costs in bits ``[n]``. Raises TargetError for a text that is too long."""
        family = self._family
        sources = [family.encode_source(self._source(text)) for text in texts]
        targets = family.encode(texts)
        check_fits(max(map(len, targets), default=0), self.max_length)
        lengths = [len(source) + len(target) for source, target in zip(sources, targets, strict=True)]
        size = self._rows_at_once(max(lengths, default=1), max(map(len, targets), default=1))
        request, score = (lengths, sources, targets), partial(self._score_all, size)
        return submit(("pairs", id(family), size), score, request, len(texts), Capacity.of_whole_texts(size))

    def batch(self, length: int) -> int:
        """Return the number of pairs in one forward pass, for target sentences of ``length`` tokens and sources that
        are as long."""
        return self._rows_at_once(2 * length, length)

    def _rows_at_once(self, both: int, target: int) -> int:
        """Return the number of pairs of ``both`` tokens, ``target`` of them in the target sentence, in one pass."""
        family = self._family
        most = min(ROWS, family.pass_rows.with_logits(target))
        return rows_at_once(family.device, both, family.batch_size, family.max_length, most)

    def _score_all(
        self, size: int, requests: Sequence[tuple[list[int], list[list[int]], list[list[int]]]]
    ) -> list[FloatArray]:
        """Compute the costs of several lists of pairs, ``[n]`` each, ``size`` pairs per pass."""
        lengths = [entry for request, _, _ in requests for entry in request]
        sources, targets = ([entry for request in requests for entry in request[part]] for part in (1, 2))
        costs = self._family.pass_rows.whole_texts.by_length(lengths, lambda _: size, self._score, sources, targets)
        return np.split(costs, np.cumsum([len(request[0]) for request in requests])[:-1])

    def _score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> FloatArray:
        """Compute the costs of a batch, ``[n]``."""
        family = self._family
        ids, mask = (part.to(family.device) for part in padded(sources, 0))
        labels, real = (part.to(family.device) for part in padded(targets, 0))
        opening = torch.tensor([family.opening], device=family.device).expand(len(labels), -1)
        written = torch.cat([opening, labels[:, :-1]], dim=1)
        logits = family.teacher_forced_logits(ids, mask, written)[:, len(family.opening) - 1 :]
        return row_bits(logits, labels, real)


class TeacherForced:
    """An encoder-decoder model that scores targets by plain teacher-forced passes; implements ``ReadsSource``.

    It uses no cache, no batch, no padding and no stored encoder output: fast scoring is verified against it if the
    harness does not score as ``generate`` writes. It takes only the tokenization and the opening from ``family``.
    """

    def __init__(self, family: Seq2SeqTarget) -> None:
        self._family = family

    def given(self, canary: Canary) -> TeacherForcedScorer:
        """Return a scorer of a canary's texts."""
        return TeacherForcedScorer(self._family, source_by_text(canary))

    def bits(self, source: Sequence[int], target: Sequence[int]) -> float:
        """Return −log2 P(target | source) of token ids, after the opening."""
        family = self._family
        read = torch.tensor([list(source)], device=family.device)
        written = torch.tensor([[*family.opening, *target]], device=family.device)
        logits = family.teacher_forced_logits(read, torch.ones_like(read), written[:, :-1])[0, -len(target) :]
        log_probabilities = logits.log_softmax(-1).gather(-1, written[0, -len(target) :, None])
        return -float(log_probabilities.cpu().double().sum()) / LN2


class TeacherForcedScorer(FilledSource):
    """A teacher-forced model with the source sentence of each text; implements ``ScoresSequences``."""

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """Return costs in bits ``[n]``. Raises TargetError for a text that is too long."""
        plain = TeacherForced(self._family)
        costs = np.zeros(len(texts))
        for index, (text, target) in enumerate(zip(texts, self._family.encode(texts), strict=True)):
            check_fits(len(target), self.max_length)
            costs[index] = plain.bits(self._family.encode_source(self._source(text)), target)
        return costs

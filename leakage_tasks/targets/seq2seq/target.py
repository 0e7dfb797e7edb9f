"""Translation models as targets: the cost of a target sentence given its source sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.batches import check_fits, padded, row_bits, rows_at_once
from leakage_tasks.targets.causal.passes import Passes
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.causal.text_model import TextModel
from leakage_tasks.targets.noise import Noise
from leakage_tasks.targets.rounding import SENTENCES, measure, text_rows
from leakage_tasks.targets.scheduler import share_of_whole_texts, submit
from leakage_tasks.targets.seq2seq.decoder import Decoder
from leakage_tasks.targets.seq2seq.languages import Languages, speech
from leakage_tasks.targets.seq2seq.source import SourceSentence
from leakage_tasks.targets.token_ids import ALONE
from leakage_tasks.targets.tokens.automaton import parse

ROWS = 512
"""Pairs that a pass has at most."""
Source = Callable[[str], str]
"""The source sentence that stands beside a target sentence."""


def source_by_text(canary: Canary) -> Source:
    """What the model reads before each filled text of a canary that has a source.

    Where the source holds the secret too, a text is read back into its filling; the function raises TargetError for a
    text that several fillings spell.
    """
    source = canary.source_space
    assert source is not None
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
    harness scores a continuation with such models: the decoder begins with its start token, the target's tokens are
    those that the tokenizer makes labels of (``text_target``) without special ones, so that neither a BOS nor the end
    of the sentence is scored. The source has all special tokens the tokenizer adds, or whatever ``encode_source``
    gives. The harness makes its tokens of a text as of a source: with a tokenizer that has a vocabulary for each
    (Marian) they are others than these.

    Where ``generate`` forces a first token (M2M100, NLLB, mBART: the code of the target's language), the decoder reads
    that as well before the target, and its cost is not counted
    (:func:`~leakage_tasks.targets.seq2seq.languages.speech`). Raises TargetError for a code of ``languages`` that the
    tokenizer lacks, and for a model without a start token. ``settings`` are those of
    :class:`~leakage_tasks.targets.causal.text_model.TextModel`.
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
        self.passes: dict[bool, Passes] = {}

    def given(self, canary: Canary) -> GivenSource | FilledSource:
        """See :class:`~leakage_tasks.targets.protocols.ReadsSource`: a target that can be searched for a fixed source.

        Raises TargetError for a fixed source that is too long for the model.
        """
        source = canary.source_space
        if source is not None and not source.slots:
            return self.after(source.fill(()))
        return FilledSource(self, source_by_text(canary))

    def after(self, source: str) -> GivenSource:
        """The model after one source sentence. Raises TargetError if it is too long."""
        return GivenSource(self, self.encode_source(source))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of target sentences, without special ones. Raises TargetError for one without an embedding."""
        found: list[list[int]] = self.tokenizer(text_target=list(texts), add_special_tokens=False, **ALONE)["input_ids"]
        self.embedded.check(found)
        return found

    def encode_source(self, text: str) -> list[int]:
        """Tokens of a source sentence, special ones included. Raises TargetError if the model cannot read them all."""
        tokens = self.source_tokens(text)
        self.embedded.check([tokens], "a source sentence")
        if len(tokens) > self.max_length:
            raise TargetError(
                f"a source sentence of {len(tokens)} tokens does not fit the model's {self.max_length}: shorten it"
            )
        return tokens

    def teacher_forced_logits(self, source: Tensor, mask: Tensor, written: Tensor) -> Tensor:
        """Logits ``[n, length, V]`` in float32 after each token ``[n, length]`` that the decoder has written."""
        with self.inference():
            out = self.model(input_ids=source, attention_mask=mask, decoder_input_ids=written, use_cache=False)
            return out.logits.float()

    @cached_property
    def noise(self) -> Noise:
        """The rounding noise of target tokens' costs, measured after one source sentence."""
        vocabulary = int(self.model.config.get_text_config().vocab_size)
        source = torch.tensor([self.source_tokens(SENTENCES[0])[: self.max_length]], device=self.device)
        rows = text_rows(self.encode, vocabulary, self.longest_target).to(self.device)
        opening = torch.tensor([self.opening], device=self.device)

        def read(tokens: Tensor, kept: int) -> Tensor:
            sources, begun = source.expand(len(tokens), -1), opening.expand(len(tokens), -1)
            written = torch.cat([begun, tokens], dim=1)
            return self.teacher_forced_logits(sources, torch.ones_like(sources), written)[:, -kept:]

        return measure(self.model, read, rows, vocabulary)

    @property
    def longest_target(self) -> int:
        """Tokens of the longest target sentence the decoder has room for after what it begins with."""
        return self.max_length - len(self.opening) + 1


class GivenSource(CausalTarget):
    """A translation model after one source sentence: its decoder is searched as a causal model is.

    Searches after all sources share passes.

    Implements ``ScoresSequences`` and ``PredictsNextToken``.
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
        self.limit, self.whole_texts, self.spelling = family.limit, family.whole_texts, family.spelling
        self.states, self.pass_size, self._passes = family.states, family.pass_size, family.passes
        self.most_padding = family.most_padding

    @property
    def noise(self) -> Noise:
        """The noise of the translation model, whatever its source."""
        return self._family.noise

    @property
    def source(self) -> SourceSentence:
        """The source sentence; what the model made of it is known for as long as a search holds it."""
        return self._family.decoder.source(self._source_tokens)

    def row_costs(self, encoded: Sequence[list[int]]) -> FloatArray:
        """See :class:`CausalTarget`; the source is read once for all."""
        held = self.source
        costs = super().row_costs(encoded)
        del held
        return costs

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of target sentences, without special ones."""
        return self._family.encode(texts)

    def _with_prefix_token(self, tokens: Sequence[int]) -> list[int]:
        # What the decoder begins with goes before whatever is written, itself included.
        return [self._prefix_token, *tokens]


class FilledSource:
    """A translation model whose source sentence holds the secret as well; implements ``ScoresSequences``.

    What stands in the source changes the cost of every token, so nothing can be cut along a path: whole pairs are
    scored.
    """

    def __init__(self, family: Seq2SeqTarget, source: Source) -> None:
        self.max_length = family.longest_target
        self._family = family
        self._source = source

    def length(self, text: str) -> int:
        """Tokens of a target sentence, what the decoder begins with not counted."""
        return len(self._family.encode([text])[0])

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """See :class:`~leakage_tasks.targets.protocols.ScoresSequences`. Raises TargetError for a long one."""
        family = self._family
        sources = [family.encode_source(self._source(text)) for text in texts]
        targets = family.encode(texts)
        check_fits(max(map(len, targets), default=0), self.max_length)
        lengths = [len(source) + len(target) for source, target in zip(sources, targets, strict=True)]
        longest, most = max(lengths, default=1), min(ROWS, family.texts_that_fit(max(map(len, targets), default=1)))
        size = rows_at_once(family.device, longest, family.batch_size, family.max_length, most)
        share, score = share_of_whole_texts(len(texts), size), partial(self._score_all, size)
        return submit(("pairs", id(family), size), score, (lengths, sources, targets), share, len(texts))

    def _score_all(
        self, size: int, asked: Sequence[tuple[list[int], list[list[int]], list[list[int]]]]
    ) -> list[FloatArray]:
        """Costs of several lists of pairs, ``[n]`` each, ``size`` pairs a pass."""
        lengths = [each for own, _, _ in asked for each in own]
        sources, targets = ([each for own in asked for each in own[part]] for part in (1, 2))
        found = self._family.whole_texts.by_length(lengths, lambda _: size, self._score, sources, targets)
        return np.split(found, np.cumsum([len(own[0]) for own in asked])[:-1])

    def _score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> FloatArray:
        """Costs of a batch, ``[n]``."""
        family = self._family
        ids, mask = (part.to(family.device) for part in padded(sources, 0))
        labels, real = (part.to(family.device) for part in padded(targets, 0))
        opening = torch.tensor([family.opening], device=family.device).expand(len(labels), -1)
        written = torch.cat([opening, labels[:, :-1]], dim=1)
        logits = family.teacher_forced_logits(ids, mask, written)[:, len(family.opening) - 1 :]
        return row_bits(logits, labels, real)


class TeacherForced:
    """An encoder-decoder model by plain forward passes with the target before its eyes; implements ``ReadsSource``.

    No cache, no batch, no padding, no encoder output that is kept: what a fast way is held against where the harness
    itself does not score as ``generate`` writes. It takes from ``family`` how texts become tokens and what the decoder
    begins with, nothing else.
    """

    def __init__(self, family: Seq2SeqTarget) -> None:
        self._family = family

    def given(self, canary: Canary) -> TeacherForcedScorer:
        """See :class:`~leakage_tasks.targets.protocols.ReadsSource`."""
        return TeacherForcedScorer(self._family, source_by_text(canary))

    def bits(self, source: Sequence[int], target: Sequence[int]) -> float:
        """−log2 P(target | source) of token ids, after what the decoder begins with."""
        family = self._family
        read = torch.tensor([list(source)], device=family.device)
        written = torch.tensor([[*family.opening, *target]], device=family.device)
        logits = family.teacher_forced_logits(read, torch.ones_like(read), written[:, :-1])[0, -len(target) :]
        own = logits.log_softmax(-1).gather(-1, written[0, -len(target) :, None])
        return -float(own.cpu().double().sum()) / LN2


class TeacherForcedScorer(FilledSource):
    """Such a model with the source sentence of each text known; implements ``ScoresSequences``."""

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """See :class:`~leakage_tasks.targets.protocols.ScoresSequences`. Raises TargetError for a long one."""
        plain = TeacherForced(self._family)
        found = np.zeros(len(texts))
        for index, (text, target) in enumerate(zip(texts, self._family.encode(texts), strict=True)):
            check_fits(len(target), self.max_length)
            found[index] = plain.bits(self._family.encode_source(self._source(text)), target)
        return found

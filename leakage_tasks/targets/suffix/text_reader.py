"""Whole texts read by a causal model: log-probabilities of their tokens, and moments of its distributions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.pairs.texts import BATCH_CHARACTERS, BATCH_TEXTS, located, running_tokens
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.batches import padded
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.devices import double_array, moved
from leakage_tasks.targets.protocols import CutText, TextFigures
from leakage_tasks.targets.suffix.causal import SuffixSampler
from leakage_tasks.targets.suffix.scores import costs_after
from leakage_tasks.targets.suffix.text_cut import cut_text
from leakage_tasks.targets.suffix.truncation import check_numbers, slices

EXCLUDED = -1e6
"""Log-probability in place of −inf in moments, so that an excluded token counts 0 and not NaN."""


class CausalTextReader:
    """A causal model that reads texts; implements :class:`~leakage_tasks.targets.protocols.ReadsTexts`.

    Every text is read after the model's prefix token, or after the text ``before`` of a chat template, which writes its
    own first token. If ``before`` is empty, nothing is put before a text: its own first token is read and not scored.
    """

    gives_tokens = gives_distributions = takes_context = True

    def __init__(self, target: CausalTarget, before: str | None = None) -> None:
        self.target, self._begins = target, before is None
        self.lead = target.begun([]) if before is None else target.encode([before])[0] if before else []
        self._unscored = int(before == "")
        # A context before a text has an unscored token, too.
        self.max_length: int | None = target.max_length - len(self.lead) - 2 * self._unscored
        self.vocabulary: int | None = target.vocabulary

    def cut(self, texts: Sequence[str], tokens: int) -> list[CutText]:
        """Return the first ``tokens`` tokens of each text. Raises TargetError if a token has no embedding."""
        rows, first = [self._scored(row) for row in self.target.encode(texts)], self._unscored
        cut = partial(cut_text, tokens=tokens + first, decode=self.target.decode, tokenizer=self.target.tokenizer)
        whole = list(map(cut, texts, rows))
        return [CutText(text.text, text.tokens[first:], text.tokens[:first]) for text in whole]

    def pieces(self, documents: Iterable[Iterable[str]]) -> Iterator[Sequence[int]]:
        """Yield the tokens of documents in pieces, in any order; each document comes in blocks that form its text.

        They are the tokens of :meth:`cut`; see :func:`~leakage_tasks.pairs.texts.running_tokens`. A slow tokenizer
        reads a document at once. Raises TargetError if a token has no embedding.
        """
        batch: list[str] = []
        characters = 0
        for blocks in documents:
            following = iter(blocks)
            first, second = next(following, ""), next(following, None)
            if second is not None and self.target.tokenizer.is_fast:
                yield from self._running(chain([first, second], following))
                continue
            batch.append("".join([first, second or "", *following]))
            characters += len(batch[-1])
            if len(batch) == BATCH_TEXTS or characters > BATCH_CHARACTERS:
                yield from map(self._scored, self.target.encode(batch))
                batch, characters = [], 0
        yield from map(self._scored, self.target.encode(batch))

    def _running(self, blocks: Iterable[str]) -> Iterator[Sequence[int]]:
        begun = False
        for piece in running_tokens(located(self.target.tokenizer), blocks):
            tokens = piece.tolist()
            self.target.embedded.check([tokens])
            yield tokens if begun else self._scored(tokens)
            begun = begun or bool(tokens)

    def _scored(self, row: list[int]) -> list[int]:
        """Return the tokens that are scored: without the prefix token, if the text begins with it."""
        return row[1:] if self._begins and row and row == self.target.begun(row) else row

    def read(self, texts: Sequence[CutText]) -> list[TextFigures]:
        figures: list[TextFigures] = [TextFigures(0.0)] * len(texts)
        rows = [[*self.lead, *text.first, *text.tokens] for text in texts]
        target = self.target

        def compute(part: Sequence[list[int]], indices: Sequence[int]) -> FloatArray:
            for index, text_figures in zip(indices, self._figures(part), strict=True):
                figures[index] = text_figures
            return np.array([figures[index].total for index in indices])

        filled = [index for index, text in enumerate(texts) if text.tokens]
        target.pass_rows.whole_texts.by_length(
            [len(rows[index]) for index in filled],
            target.text_rows,
            compute,
            [rows[index] for index in filled],
            filled,
            most_padding=target.most_padding,
        )
        return figures

    def _figures(self, rows: Sequence[list[int]]) -> list[TextFigures]:
        """Return the figures of rows of tokens from one forward pass."""
        tokens = moved(padded(rows, 0)[0], self.target.device)
        after = len(self.lead) + self._unscored
        with self.target.inference():
            logits = self.target.read(tokens[:, :-1], tokens.shape[1] - after)
            wanted = tokens[:, after:]
            parts = list(slices(logits.flatten(0, 1)))
            columns = zip(
                *map(_moments, parts, wanted.flatten().split([len(part) for part in parts])),
                strict=True,
            )
            logs, means, deviations = (torch.cat(column).reshape(wanted.shape) for column in columns)
        arrays = double_array(torch.stack([logs, means, deviations]))
        check_numbers(arrays[0])
        read = []
        for index, row in enumerate(rows):
            log_probabilities, *moments = (array[index, : len(row) - after] for array in arrays)
            read.append(TextFigures(float(log_probabilities.sum()), log_probabilities, *moments))
        return read

    def totals_after(self, context: CutText, texts: Sequence[CutText]) -> FloatArray:
        """Return log-likelihoods in nats ``[texts]`` after ``context``, which is read once for many texts.

        Raises TargetError if context and text are longer than the model can read.
        """
        prefix = [*self.lead, *context.first, *context.tokens]
        longest = max((len(text.first) + len(text.tokens) for text in texts), default=0)
        if len(prefix) + longest > self.target.max_length:
            raise TargetError(
                f"a context of {len(prefix)} tokens and a text of {longest} exceed the model's {self.target.max_length}"
            )
        rows = [list(text.tokens) for text in texts]
        costs = costs_after(SuffixSampler(self.target), [[*prefix, *text.first] for text in texts], rows)
        return np.array([-LN2 * float(bits.sum()) for bits in costs])


def _moments(logits: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the log-probabilities of ``tokens`` ``[n]``, and mean and deviation of each distribution ``[n, V]``."""
    logs = logits.log_softmax(1)
    chosen = logs.gather(1, tokens[:, None])[:, 0]
    shares = logs.exp()
    logs.clamp_(min=EXCLUDED)
    means = (shares * logs).sum(1)
    logs -= means[:, None]
    return chosen, means, (shares * logs.square_()).sum(1).sqrt()

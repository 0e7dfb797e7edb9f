"""Whole texts read by any harness model that answers ``loglikelihood``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.harness.api import LM
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.harness.target import HarnessScorer
from leakage_tasks.targets.harness.texts import HarnessTexts, text_tokens
from leakage_tasks.targets.protocols import CutText, ScoresSequences, TextFigures
from leakage_tasks.targets.suffix.text_cut import cut_text

RESERVED = 2
"""Tokens to leave free: one that begins a text, and one that some models must generate in order to score."""


class HarnessTextReader:
    """A model that gives only the log-likelihood of a whole text.

    Implements :class:`~leakage_tasks.targets.protocols.ReadsTexts`. ``before`` is the text before every text, as a chat
    template writes it; ``tokenizer`` counts tokens, by default the model's own.

    Raises:
        TargetError: The model has no usable tokenizer, or cannot read a text before another one.
    """

    gives_tokens = gives_distributions = False

    def __init__(self, lm: LM, target: ScoresSequences, before: str | None = None, tokenizer: Any = None) -> None:
        self._lm, self._target, self._before = lm, target, before or ""
        self._tokens = text_tokens(lm, tokenizer)
        self.takes_context = isinstance(target, HarnessScorer)
        self.vocabulary = self._tokens.vocabulary
        if self._before and not self.takes_context:
            raise TargetError(
                f"--apply_chat_template: {type(lm).__name__} scores a text without a text before it: leave the flag out"
            )
        around = len(self._tokens.encode([self._before])[0]) if self._before else 0
        most = target.max_length
        self.max_length: int | None = most - RESERVED - around if isinstance(most, int) else None

    def cut(self, texts: Sequence[str], tokens: int) -> list[CutText]:
        def decode(kept: Sequence[int]) -> str:
            return self._tokens.decode([kept])[0]

        pairs = zip(texts, self._tokens.encode(texts), strict=True)
        return [cut_text(text, row, tokens, decode, self._tokens.tokenizer) for text, row in pairs]

    def read(self, texts: Sequence[CutText]) -> list[TextFigures]:
        filled = [text.text for text in texts if text.tokens]
        totals = iter(self._totals(filled) if filled else ())
        return [TextFigures(float(next(totals)) if text.tokens else 0.0) for text in texts]

    def _totals(self, texts: Sequence[str]) -> FloatArray:
        if self._before:
            return self._after(self._before, texts)
        return -LN2 * self._target.log_perplexity(texts)

    def totals_after(self, context: CutText, texts: Sequence[CutText]) -> FloatArray:
        return self._after(self._before + context.text, [text.text for text in texts])

    def _after(self, before: str, texts: Sequence[str]) -> FloatArray:
        return -LN2 * np.array(HarnessTexts(self._lm).bits([(before, text) for text in texts]))

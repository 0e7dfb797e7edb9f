"""Log-likelihoods of whole texts from any model of the harness, also of texts longer than the model reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leakage_tasks.core.errors import TargetError
from leakage_tasks.harness.api import LM
from leakage_tasks.harness.generation import request, whole_text
from leakage_tasks.harness.hf import HFLM
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.embedded_tokens import embedded_tokens
from leakage_tasks.targets.harness.faults import forward_faults, gives_no_likelihoods
from leakage_tasks.targets.harness.float32_sums import float32_sums
from leakage_tasks.targets.harness.target import HarnessScorer, check_tokenizer, target_for_texts
from leakage_tasks.targets.token_ids import token_ids

Window = tuple[list[int], list[int]]
"""Tokens that the model reads before the scored tokens, and the scored tokens."""


@dataclass(frozen=True)
class TextBits:
    """Cost of a text in bits, its number of tokens and the number of windows; None if the model does not report
    them."""

    bits: float
    tokens: int | None
    windows: int | None


class WholeTexts:
    """A harness model that scores whole texts from their first token.

    A causal ``HFLM`` reads token ids after its prefix token, in passes as large as its memory allows if its fast path
    agrees with the harness on two of the first texts, else in the harness' batches. Texts longer than the model's
    context are read in windows that overlap by half: each later window scores the tokens of its second half. Other
    models score texts by ``loglikelihood_rolling``, which has its own windows. Raises TargetError for a model that
    cannot score texts.
    """

    def __init__(self, lm: LM) -> None:
        HarnessScorer(lm)  # It refuses a batch size that makes processes wait for each other.
        self._lm: Any = lm
        self._verified: Any = None
        self._tokens = isinstance(lm, HFLM) and lm.backend == "causal"
        if isinstance(lm, HFLM) and not self._tokens:
            raise TargetError(f"an encoder-decoder model ({type(lm.model).__name__}) scores no text by itself")
        if self._tokens:
            check_tokenizer(self._lm)

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens that the model reads, or None if it is unknown."""
        most = getattr(self._lm, "max_length", None)
        return most if isinstance(most, int) else None

    def length(self, text: str) -> int | None:
        """Return the number of tokens of a text, or None if the model does not report it."""
        if self._tokens:
            return len(self._encoded([text])[0])
        try:
            return len(self._lm.tok_encode(text))
        except Exception:  # models without a tokenizer fail in many ways
            return None

    def score(self, texts: Sequence[str]) -> list[TextBits]:
        """Return the cost of each text. Equal texts are scored once.

        Raises TargetError for a model without log-likelihoods and for a value that is not finite.
        """
        distinct = list(dict.fromkeys(texts))
        with forward_faults(self._lm), float32_sums(self._lm):
            costs = self._by_tokens(distinct) if self._tokens else self._by_text(distinct)
        if not all(math.isfinite(each.bits) for each in costs):
            raise TargetError(f"{type(self._lm).__name__} gave a log-likelihood that is not finite: check the model")
        known = dict(zip(distinct, costs, strict=True))
        return [known[text] for text in texts]

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of texts without the prefix token, with which a chat template may begin a text."""
        first = self._lm.prefix_token_id
        rows = token_ids(self._lm.tokenizer, texts, special=False)
        return [list(row[1:] if row[:1] == [first] else row) for row in rows]

    def _by_tokens(self, texts: Sequence[str]) -> list[TextBits]:
        rows = self._encoded(texts)
        embedded_tokens(self._lm).check(rows)
        parts = [windows(row, self._lm.prefix_token_id, self._lm.max_length) for row in rows]
        costs = iter(self._of_windows([window for part in parts for window in part], texts))
        return [
            TextBits(sum(next(costs) for _ in part), len(row), len(part)) for row, part in zip(rows, parts, strict=True)
        ]

    def _of_windows(self, cuts: Sequence[Window], texts: Sequence[str]) -> list[float]:
        """Return the cost in bits of the scored tokens of each window."""
        if not cuts:
            return []
        target = self._target(texts)
        if not isinstance(target, CausalTarget):
            # Without a key the harness caches nothing.
            answers = self._lm._loglikelihood_tokens([(None, *window) for window in cuts], disable_tqdm=True)
            return [-answer[0] / LN2 for answer in answers]
        rows = [[*before, *scored] for before, scored in cuts]
        inputs = rows, [len(before) for before, _ in cuts], [None] * len(cuts)
        limit, lengths = target.pass_rows.whole_texts, [len(row) for row in rows]
        costs = limit.by_length(lengths, target.text_rows, target.score, *inputs, most_padding=target.most_padding)
        return costs.tolist()

    def _target(self, texts: Sequence[str]) -> Any:
        if self._verified is None:
            self._verified = target_for_texts(self._lm, texts)
        return self._verified

    def _by_text(self, texts: Sequence[str]) -> list[TextBits]:
        requests = [request("loglikelihood_rolling", {}, whole_text(text), index) for index, text in enumerate(texts)]
        try:
            answers = self._lm.loglikelihood_rolling(requests)
        except Exception as error:
            if not gives_no_likelihoods(self._lm, error):
                raise
            raise TargetError(
                f"{type(self._lm).__name__} gives no log-likelihoods of whole texts: choose a model or API that does"
            ) from None
        values = [float(answer[0] if isinstance(answer, tuple) else answer) for answer in answers]
        return [TextBits(-value / LN2, self.length(text), None) for text, value in zip(texts, values, strict=True)]


def windows(tokens: Sequence[int], first: int, most: int) -> list[Window]:
    """Return the windows in which a model that reads ``most`` tokens scores each of ``tokens`` once, after ``first``.

    The first window scores ``most`` tokens. Each later window scores up to half as many, after the tokens before them.
    """
    whole = [first, *tokens]
    step, end = max(1, most // 2), min(most, len(tokens))
    cuts = [(whole[:1], whole[1 : end + 1])] if tokens else []
    while end < len(tokens):
        after = min(end + step, len(tokens))
        cuts.append((whole[after - most : end + 1], whole[end + 1 : after + 1]))
        end = after
    return cuts

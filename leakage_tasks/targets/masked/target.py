"""A masked language model as a target: a text costs its pseudo-log-perplexity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.masked.model import MaskedModel
from leakage_tasks.targets.masked.rows import Query, varying_places


class MaskedTarget(MaskedModel):
    """Scores texts with a `transformers` masked language model.

    Implements ``ScoresSequences``, ``ScoresUpTo`` and ``FillsMasks``. The cost of a text is the sum over its tokens of
    −log2 P(token | all others), that token alone masked: the pseudo-log-likelihood of Salazar et al. 2020 ("Masked
    Language Model Scoring", Equation 1) in bits, its sign turned. A word of several tokens is masked token by token.
    The special tokens that the tokenizer puts around a text are read and not scored.
    """

    def length(self, text: str) -> int:
        """Tokens of a text, special ones included."""
        return len(self.encode([text])[0])

    def batch(self, length: int) -> int:
        """How many masked rows of ``length`` tokens one forward pass takes."""
        return self._batches.size(length)

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """Pseudo-log-perplexity of each text in bits, shape ``[len(texts)]``.

        Raises TargetError for a text that is too long or holds a mask, and for different texts of the same tokens.
        """
        return self._bits(self._whole(texts))

    def log_perplexity_up_to(self, texts: Sequence[str], most: float, cheapest: int = 0) -> FloatArray:
        """See :class:`~leakage_tasks.targets.protocols.ScoresUpTo`. Raises TargetError as :meth:`log_perplexity`.

        Tokens that are not the same in all texts come first: theirs are the masked rows that texts share, and what a
        filling costs in its slots alone is often more than ``most`` already.
        """
        whole = self._whole(texts)
        varying = varying_places(whole)
        bits = self._bits([(ids, places) for (ids, _), places in zip(whole, varying, strict=True)])
        settled = np.zeros(len(bits), dtype=bool)

        def settle(some: NDArray[np.bool_]) -> None:
            left = np.flatnonzero(some & ~settled)
            bits[left] += self._bits([(whole[n][0], sorted(set(whole[n][1]) - set(varying[n]))) for n in left])
            settled[left] = True

        ahead = np.argsort(bits, kind="stable")[:cheapest]
        settle(np.isin(np.arange(len(bits)), ahead))
        settle(bits <= max([most, *bits[ahead]]))
        return bits

    def _bits(self, queries: Sequence[Query]) -> FloatArray:
        masked, costs, _ = self._answers(queries)
        return masked.sums(costs)

    def _whole(self, texts: Sequence[str]) -> list[Query]:
        """Each text's tokens, asking about all but the special ones around it."""
        if not texts:
            return []
        found = self.tokenizer(list(texts), return_special_tokens_mask=True, verbose=False)
        rows = found["input_ids"]
        if any(self.tokenizer.mask_token_id in row for row in rows):
            raise TargetError(f"a text holds the model's mask token, {self.tokenizer.mask_token!r}: take it out")
        if len(set(map(tuple, rows))) < len(set(texts)):
            raise TargetError(
                "the tokenizer gives two of the texts the same tokens, so they cannot be told apart: use a space whose "
                "values the tokenizer distinguishes"
            )
        special = found["special_tokens_mask"]
        return [
            (ids, [n for n, around in enumerate(mask) if not around]) for ids, mask in zip(rows, special, strict=True)
        ]

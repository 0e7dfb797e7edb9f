"""The figures of one text from which membership scores are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.targets.protocols import CutText, TextFigures


@dataclass(frozen=True)
class TextRecord:
    """A text with ``n`` tokens and its figures in nats; a figure that no attack of the run needs is None.

    ``share`` is the share of tokens that min-k uses, from 0 to 1, and ``clip`` the limit of a token's term in dc-pdd.
    """

    text: CutText
    figures: TextFigures
    share: float
    clip: float
    lowered: float | None = None
    """Log-likelihood per token of the lower-cased text."""
    reference: float | None = None
    """Log-likelihood of the text under the reference model, mean over several."""
    after_context: float | None = None
    """Log-likelihood of the text after a context of non-members."""
    frequencies: FloatArray | None = None
    """Probability of each token in the reference corpus ``[n]``."""
    neighbours: Sequence[float] = ()
    """Log-likelihood per token of each similar text."""

    @property
    def per_token(self) -> float:
        """The log-likelihood per token."""
        return self.figures.total / len(self.text.tokens)

    @property
    def lowest(self) -> int:
        """Number of tokens that min-k uses: the share of all tokens, rounded down."""
        return lowest_tokens(len(self.text.tokens), self.share)


def lowest_tokens(tokens: int, share: float) -> int:
    """Return the share of a number of tokens, rounded down."""
    # 0.29 · 100 is 28.999… in binary.
    return int(tokens * share + 1e-9)

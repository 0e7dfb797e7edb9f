"""Draws after one prefix, and their candidates at any length and number of draws."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from leakage_tasks.attacks.suffix.candidates import Candidates
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.targets.protocols import DrawsSuffixes
from leakage_tasks.targets.suffix.sampled_suffixes import SampledSuffixes

Lowered = dict[tuple[int, int], str]
"""Texts in lower case, by the draw's row and the number of its first tokens."""


@dataclass
class PrefixSamples:
    """A target's draws after ``prefix``. ``calls`` is the number of sequences that the model has read for them."""

    target: DrawsSuffixes
    prefix: tuple[int, ...]
    draws: SampledSuffixes
    compared_with: DrawsSuffixes | None = None
    calls: int = field(init=False)
    _lower: dict[tuple[int, int], float] = field(init=False, default_factory=dict)
    _compared: FloatArray | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        # A model that only generates text is called once per draw, a model that scores reads each distinct draw once.
        self.calls = len(self.draws.of_draw if self.draws.own is None else self.draws.tokens)

    def candidates(self, samples: int, length: int, *, compressed: bool = False, lowered: bool = False) -> Candidates:
        """Return the distinct beginnings of ``length`` tokens among the first ``samples`` draws.

        Args:
            samples: Number of draws.
            length: Number of tokens.
            compressed: Whether to add the field for the confidence ``zlib``.
            lowered: Whether to add the field for the confidence ``lowercase``.

        Returns:
            The candidates.
        """
        rows, counts = self.draws.first(samples, length)
        tokens = self.draws.tokens[rows, :length]
        if self.draws.own is None:
            return Candidates(tokens, counts, None)
        token_bits = self.draws.own[rows, :length]
        texts = self.target.decode(tokens.tolist()) if compressed or lowered else []
        return Candidates(
            tokens,
            counts,
            token_bits.sum(1),
            zlib=np.array([len(zlib.compress(text.encode())) for text in texts]) if compressed else None,
            lowest=None if self.draws.totals_only else np.exp2(-token_bits.max(1)),
            margin=_mean(self.draws.margin, rows, length),
            entropy=_mean(self.draws.entropy, rows, length),
            lowered=self._lowered(texts, rows, token_bits) if lowered else None,
            compared=None if self.compared_with is None else self._costs_compared()[rows, :length].mean(1),
        )

    def _costs_compared(self) -> FloatArray:
        """Return each distinct draw's bits per token under the second model, ``[n, L]``.

        A draw that ended early has its mean cost at all positions.
        """
        compare([self])
        assert self._compared is not None
        return self._compared

    def _lowered(self, texts: Sequence[str], rows: IntArray, token_bits: FloatArray) -> FloatArray:
        """Return bits per token of the lower-cased texts; texts already in lower case keep their cost."""
        length = int(token_bits.shape[1])
        read_lowered([self], [self._to_lower(texts, rows, length)])
        means = token_bits.mean(1)
        return np.array([self._lower.get((int(row), length), mean) for row, mean in zip(rows, means, strict=True)])

    def to_lower(self, samples: int, length: int) -> Lowered:
        """Return lower-cased beginnings of the first ``samples`` draws that differ from the original text."""
        rows, _ = self.draws.first(samples, length)
        return self._to_lower(self.target.decode(self.draws.tokens[rows, :length].tolist()), rows, length)

    def _to_lower(self, texts: Sequence[str], rows: IntArray, length: int) -> Lowered:
        lowered = {(int(row), length): text.lower() for row, text in zip(rows, texts, strict=True) if not _is_low(text)}
        return {key: text for key, text in lowered.items() if key not in self._lower}


def _is_low(text: str) -> bool:
    return text.lower() == text


def read_lowered(several: Sequence[PrefixSamples], texts: Sequence[Lowered]) -> None:
    """Score the lower-cased ``texts`` of ``several`` samples of one target and one prefix length in one call."""
    queue = [
        (samples, key, text) for samples, lowered in zip(several, texts, strict=True) for key, text in lowered.items()
    ]
    if not queue:
        return
    target = several[0].target
    room = (target.max_length or 1 << 30) - len(several[0].prefix)
    encoded = [tokens[:room] for tokens in target.encode([text for _, _, text in queue])]
    read = [(samples, key, tokens) for (samples, key, _), tokens in zip(queue, encoded, strict=True) if tokens]
    costs = target.costs_after([samples.prefix for samples, _, _ in read], [tokens for _, _, tokens in read])
    for (samples, key, _), cost in zip(read, costs, strict=True):
        samples._lower[key] = float(cost.mean())
        samples.calls += 1


def compare(several: Sequence[PrefixSamples]) -> None:
    """Score the draws of ``several`` samples under the second model in one call, unless it has scored them."""
    model, queue = several[0].compared_with, []
    assert model is not None
    for samples in several:
        if samples._compared is not None:
            continue
        assert samples.draws.own is not None
        samples._compared = np.zeros_like(samples.draws.own)
        rows = [[token for token in row if token >= 0] for row in samples.draws.tokens.tolist()]
        queue += [(samples, index, row) for index, row in enumerate(rows) if row]
    costs = model.costs_after([samples.prefix for samples, _, _ in queue], [row for _, _, row in queue])
    for (samples, index, _), cost in zip(queue, costs, strict=True):
        assert samples._compared is not None
        samples._compared[index] = cost if len(cost) == samples._compared.shape[1] else cost.mean()


def _mean(values: FloatArray | None, rows: IntArray, length: int) -> FloatArray | None:
    return None if values is None else values[rows, :length].mean(1)

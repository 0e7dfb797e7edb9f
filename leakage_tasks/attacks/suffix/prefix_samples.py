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


@dataclass
class PrefixSamples:
    """A target's draws after ``prefix``. ``calls`` is the number of sequences that the model has read for them.

    :func:`read_lowered` and :func:`compare` score the draws of many prefixes, before candidates are made of them.
    """

    target: DrawsSuffixes
    prefix: tuple[int, ...]
    draws: SampledSuffixes
    calls: int = field(init=False)
    _lower: dict[int, dict[int, float]] = field(init=False, default_factory=dict)
    """Bits per token of texts in lower case that differ from the draw, by their number of tokens and the draw's row."""
    _compared: FloatArray | None = field(init=False, default=None)
    """Each distinct draw's bits per token under a second model, ``[n, L]``."""

    def __post_init__(self) -> None:
        # A model that only generates text is called once per draw, a model that scores reads each distinct draw once.
        self.calls = len(self.draws.of_draw if self.draws.own is None else self.draws.tokens)

    def candidates(self, samples: int, length: int, *, compressed: bool = False, lowered: bool = False) -> Candidates:
        """Return the distinct beginnings of ``length`` tokens among the first ``samples`` draws.

        Args:
            samples: Number of draws.
            length: Number of tokens.
            compressed: Whether to add the field for the confidence ``zlib``.
            lowered: Whether to add the field for the confidence ``lowercase``, after :func:`read_lowered`.

        Returns:
            The candidates.
        """
        rows, counts = self.draws.first(samples, length)
        tokens = self.draws.tokens[rows, :length]
        if self.draws.own is None:
            return Candidates(tokens, counts, None)
        token_bits = self.draws.own[rows, :length]
        texts = self.target.decode(tokens.tolist()) if compressed else []
        return Candidates(
            tokens,
            counts,
            token_bits.sum(1),
            zlib=np.array([len(zlib.compress(text.encode())) for text in texts]) if compressed else None,
            lowest=None if self.draws.totals_only else np.exp2(-token_bits.max(1)),
            margin=_mean(self.draws.margin, rows, length),
            entropy=_mean(self.draws.entropy, rows, length),
            lowered=self._lowered(rows.tolist(), token_bits.mean(1), length) if lowered else None,
            compared=_mean(self._compared, rows, length),
        )

    def _lowered(self, rows: Sequence[int], means: FloatArray, length: int) -> FloatArray:
        read = self._lower[length]
        return np.array([read.get(row, mean) for row, mean in zip(rows, means, strict=True)])

    def to_lower(self, number: int, length: int) -> dict[int, str]:
        """Return beginnings of the first ``number`` draws in lower case that differ from the text and were not read."""
        rows, read = self.draws.first(number, length)[0].tolist(), self._lower.setdefault(length, {})
        texts = zip(rows, self.target.decode(self.draws.tokens[rows, :length].tolist()), strict=True)
        return {row: text.lower() for row, text in texts if text.lower() != text and row not in read}


def read_lowered(several: Sequence[PrefixSamples], number: int, length: int) -> None:
    """Score the first ``length`` tokens of draws in lower case, in one call for all samples of one prefix length.

    Args:
        several: Draws of one target after prefixes of one length.
        number: Number of draws of each.
        length: Number of tokens of the texts.
    """
    queue = [(samples, row, text) for samples in several for row, text in samples.to_lower(number, length).items()]
    if not queue:
        return
    target = several[0].target
    room = (target.max_length or 1 << 30) - len(several[0].prefix)
    encoded = [tokens[:room] for tokens in target.encode([text for _, _, text in queue])]
    read = [(samples, row, tokens) for (samples, row, _), tokens in zip(queue, encoded, strict=True) if tokens]
    costs = target.costs_after([samples.prefix for samples, _, _ in read], [tokens for _, _, tokens in read])
    for (samples, row, _), cost in zip(read, costs, strict=True):
        samples._lower[length][row] = float(cost.mean())
        samples.calls += 1


def compare(several: Sequence[PrefixSamples], model: DrawsSuffixes) -> None:
    """Score the draws of ``several`` samples under a second ``model`` in one call, unless it has scored them.

    A draw that ended early has its mean cost at all positions.
    """
    queue = []
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

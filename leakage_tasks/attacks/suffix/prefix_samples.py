"""The draws after one prefix, and the candidates they make at any length and number of draws."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from leakage_tasks.attacks.suffix.candidates import Candidates
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.targets.protocols import DrawsSuffixes
from leakage_tasks.targets.suffix.sampled_suffixes import SampledSuffixes


@dataclass
class PrefixSamples:
    """What a target drew after ``prefix``. ``calls`` counts the sequences its model has read for it."""

    target: DrawsSuffixes
    prefix: tuple[int, ...]
    draws: SampledSuffixes
    compared_with: DrawsSuffixes | None = None
    calls: int = field(init=False)
    _lower: dict[tuple[int, int], float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        # What only writes is asked for every draw, what scores is read for every distinct one.
        self.calls = len(self.draws.of_draw if self.draws.own is None else self.draws.tokens)

    def candidates(self, samples: int, length: int, *, compressed: bool = False, lowered: bool = False) -> Candidates:
        """The distinct beginnings of ``length`` tokens among the first ``samples`` draws.

        ``compressed`` and ``lowered`` ask for what the confidences ``zlib`` and ``lowercase`` need.
        """
        rows, counts = self.draws.first(samples, length)
        tokens = self.draws.tokens[rows, :length]
        if self.draws.own is None:
            return Candidates(tokens, counts, None)
        own = self.draws.own[rows, :length]
        texts = self.target.decode(tokens.tolist()) if compressed or lowered else []
        return Candidates(
            tokens,
            counts,
            own.sum(1),
            zlib=np.array([len(zlib.compress(text.encode())) for text in texts]) if compressed else None,
            lowest=None if self.draws.totals_only else np.exp2(-own.max(1)),
            margin=_mean(self.draws.margin, rows, length),
            entropy=_mean(self.draws.entropy, rows, length),
            lowered=self._lowered(texts, rows, own) if lowered else None,
            compared=None if self.compared_with is None else self._compared[rows, :length].mean(1),
        )

    @cached_property
    def _compared(self) -> FloatArray:
        """Costs a token of every distinct draw under the second model, ``[n, L]``; spread where a draw ended early."""
        assert self.compared_with is not None
        assert self.draws.own is not None
        rows = [[token for token in row if token >= 0] for row in self.draws.tokens.tolist()]
        found = np.zeros_like(self.draws.own)
        kept = [place for place, row in enumerate(rows) if row]
        costs = self.compared_with.costs_after(self.prefix, [rows[place] for place in kept]) if kept else []
        for place, cost in zip(kept, costs, strict=True):
            found[place] = cost if len(cost) == len(found[place]) else cost.mean()
        return found

    def _lowered(self, texts: Sequence[str], rows: IntArray, own: FloatArray) -> FloatArray:
        """Bits a token of the lower-cased texts; those that are in lower case already cost what they do."""
        length = int(own.shape[1])
        changed = {int(row): text.lower() for row, text in zip(rows, texts, strict=True) if text.lower() != text}
        new = [row for row in changed if (row, length) not in self._lower]
        room = (self.target.max_length or 1 << 30) - len(self.prefix)
        encoded = [tokens[:room] for tokens in self.target.encode([changed[row] for row in new])]
        read = [(row, tokens) for row, tokens in zip(new, encoded, strict=True) if tokens]
        costs = self.target.costs_after(self.prefix, [tokens for _, tokens in read])
        self._lower |= {(row, length): float(cost.mean()) for (row, _), cost in zip(read, costs, strict=True)}
        self.calls += len(read)
        means = own.mean(1)
        return np.array([self._lower.get((int(row), length), mean) for row, mean in zip(rows, means, strict=True)])


def _mean(figures: FloatArray | None, rows: IntArray, length: int) -> FloatArray | None:
    return None if figures is None else figures[rows, :length].mean(1)

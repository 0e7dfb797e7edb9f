"""The draws after one prefix, and the candidates they make at any length and number of draws."""

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
"""Texts in lower case, by the draw and how many of its tokens they are of."""


@dataclass
class PrefixSamples:
    """What a target drew after ``prefix``. ``calls`` counts the sequences its model has read for it."""

    target: DrawsSuffixes
    prefix: tuple[int, ...]
    draws: SampledSuffixes
    compared_with: DrawsSuffixes | None = None
    calls: int = field(init=False)
    _lower: dict[tuple[int, int], float] = field(init=False, default_factory=dict)
    _compared: FloatArray | None = field(init=False, default=None)

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
            compared=None if self.compared_with is None else self._costs_compared()[rows, :length].mean(1),
        )

    def _costs_compared(self) -> FloatArray:
        """Costs a token of every distinct draw under the second model, ``[n, L]``; spread where a draw ended early."""
        compare([self])
        assert self._compared is not None
        return self._compared

    def _lowered(self, texts: Sequence[str], rows: IntArray, own: FloatArray) -> FloatArray:
        """Bits a token of the lower-cased texts; those that are in lower case already cost what they do."""
        length = int(own.shape[1])
        read_lowered([self], [self._to_lower(texts, rows, length)])
        means = own.mean(1)
        return np.array([self._lower.get((int(row), length), mean) for row, mean in zip(rows, means, strict=True)])

    def to_lower(self, samples: int, length: int) -> Lowered:
        """What of the distinct beginnings among the first ``samples`` draws is another text in lower case."""
        rows, _ = self.draws.first(samples, length)
        return self._to_lower(self.target.decode(self.draws.tokens[rows, :length].tolist()), rows, length)

    def _to_lower(self, texts: Sequence[str], rows: IntArray, length: int) -> Lowered:
        lowered = {(int(row), length): text.lower() for row, text in zip(rows, texts, strict=True) if not _is_low(text)}
        return {key: text for key, text in lowered.items() if key not in self._lower}


def _is_low(text: str) -> bool:
    return text.lower() == text


def read_lowered(several: Sequence[PrefixSamples], texts: Sequence[Lowered]) -> None:
    """Have the ``texts`` of each of ``several``, draws of one target after prefixes of one length, read together."""
    asked = [(each, key, text) for each, own in zip(several, texts, strict=True) for key, text in own.items()]
    if not asked:
        return
    target = several[0].target
    room = (target.max_length or 1 << 30) - len(several[0].prefix)
    encoded = [tokens[:room] for tokens in target.encode([text for _, _, text in asked])]
    read = [(each, key, tokens) for (each, key, _), tokens in zip(asked, encoded, strict=True) if tokens]
    costs = target.costs_after([each.prefix for each, _, _ in read], [tokens for _, _, tokens in read])
    for (each, key, _), cost in zip(read, costs, strict=True):
        each._lower[key] = float(cost.mean())
        each.calls += 1


def compare(several: Sequence[PrefixSamples]) -> None:
    """Have the second model read those draws of ``several`` that it has not, together, after prefixes of one length."""
    model, asked = several[0].compared_with, []
    assert model is not None
    for each in (one for one in several if one._compared is None):
        assert each.draws.own is not None
        each._compared = np.zeros_like(each.draws.own)
        rows = [[token for token in row if token >= 0] for row in each.draws.tokens.tolist()]
        asked += [(each, index, row) for index, row in enumerate(rows) if row]
    costs = model.costs_after([each.prefix for each, _, _ in asked], [row for _, _, row in asked])
    for (each, place, _), cost in zip(asked, costs, strict=True):
        assert each._compared is not None
        each._compared[place] = cost if len(cost) == each._compared.shape[1] else cost.mean()


def _mean(figures: FloatArray | None, rows: IntArray, length: int) -> FloatArray | None:
    return None if figures is None else figures[rows, :length].mean(1)

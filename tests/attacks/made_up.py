"""Made-up next-token models whose costs are sums over positions, so that ranks are known exactly at any length.

Costs are whole numbers of a sixteenth of a bit and depend on the position and at most the digit before, so that the
fillings of each cost can be counted by dynamic programming.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.targets.tokens.automaton import AutomatonPaths
from leakage_tasks.targets.tokens.vocabulary import Pieces
from tests.attacks.text_array import text_array

UNIT = 1 / 16
"""Bits; a power of two, so that sums are exact."""
DIGITS = 10


def independent(positions: int, stream: np.random.Generator) -> np.ndarray:
    """Every position has its own distribution, drawn from all alike (Dirichlet)."""
    chances = stream.dirichlet(np.ones(DIGITS), size=(positions, 1))
    return np.repeat(-np.log2(chances), DIGITS, axis=1)


def markov(positions: int, stream: np.random.Generator) -> np.ndarray:
    """A digit depends on the one before; a few are likely, some hardly possible."""
    return -np.log2(np.maximum(stream.dirichlet(np.full(DIGITS, 0.15), size=(positions, DIGITS)), 2.0**-50))


def heavy_tailed(positions: int, stream: np.random.Generator) -> np.ndarray:
    """After half of the digits all are about alike, after the others one is certain and all else costs some 20 bits."""
    weights = stream.normal(0, 0.3, size=(positions, DIGITS, DIGITS))
    sure = stream.random((positions, DIGITS)) < 0.5
    weights[sure] = stream.normal(-20, 4, size=(int(sure.sum()), DIGITS))
    weights[(*np.nonzero(sure), stream.integers(DIGITS, size=int(sure.sum())))] = 0.0
    return np.log2(np.exp2(weights).sum(axis=-1, keepdims=True)) - weights


def nearly_equal(positions: int, stream: np.random.Generator) -> np.ndarray:
    """All digits cost about the same after any other, as in a model that knows only that digits follow."""
    return np.log2(DIGITS) + 0.2 * stream.standard_normal((positions, DIGITS, DIGITS))


MODELS: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {
    "independent": independent,
    "Markov": markov,
    "heavy-tailed": heavy_tailed,
    "nearly equal": nearly_equal,
}


class MadeUp:
    """A target over texts of digits; ``steps`` ``[positions, 10, 10]`` are costs by digit before and digit, in units.

    Implements ``PredictsNextToken``. The digit before the first is 0.
    """

    max_length = None

    def __init__(self, model: str, positions: int, seed: int = 0) -> None:
        stream = np.random.default_rng([seed, positions, list(MODELS).index(model)])
        self.positions = positions
        self.steps = np.maximum(np.round(MODELS[model](positions, stream) / UNIT), 0).astype(np.int64)
        self._costs = self.steps * UNIT

    def length(self, text: str) -> int:
        return len(text)

    def log_perplexity(self, texts: Sequence[str]) -> np.ndarray:
        digits = np.array([[int(character) for character in text] for text in texts])
        before = np.concatenate([np.zeros((len(digits), 1), dtype=np.int64), digits[:, :-1]], axis=1)
        return self._costs[np.arange(self.positions)[None], before, digits].sum(axis=1)

    def paths(self, space: Space) -> AutomatonPaths:
        pieces = Pieces({digit: str(digit) for digit in range(DIGITS)})
        return AutomatonPaths(space, lambda texts: [[int(digit) for digit in text] for text in texts], (), "", pieces)

    def start(self, prefix: Sequence[int], columns: np.ndarray) -> tuple[Any, float, np.ndarray]:
        return text_array(np.zeros(1, dtype=np.int64)), 0.0, self._costs[0, :1][:, columns]

    def extend(self, texts: Any, tokens: np.ndarray, columns: Any) -> tuple[Any, np.ndarray]:
        position = int(texts[0]) + 1
        return text_array(np.full(len(tokens), position)), self._costs[position][tokens][:, columns]

    def rows(self, length: int) -> int:
        return 1 << 16

    def state_bytes(self, state: Any) -> int:
        return 0


class Ranks:
    """The exact ranks of a made-up model's fillings, and fillings of any rank."""

    def __init__(self, target: MadeUp) -> None:
        self._steps = target.steps
        most = int(self._steps.max(axis=(1, 2)).sum()) + 1
        after = np.zeros((DIGITS, most))
        after[:, 0] = 1.0
        self._after = [after]
        for step in reversed(self._steps):
            here = np.zeros_like(after)
            for before in range(DIGITS):
                for digit in range(DIGITS):
                    cost = step[before, digit]
                    here[before, cost:] += self._after[0][digit, : most - cost]
            self._after.insert(0, here)
        self._cheaper = np.cumsum(self._after[0][0])

    def near(self, log2_rank: float, name: str, stream: np.random.Generator) -> tuple[Canary, float]:
        """A canary whose secret has the nearest rank there is to 2^``log2_rank`` or more, and that rank."""
        cost = min(int(np.searchsorted(self._cheaper, 2.0**log2_rank)), len(self._cheaper) - 1)
        while not self._after[0][0][cost]:
            cost -= 1
        return self._canary(cost, name, stream), float(self._cheaper[cost])

    def random(self, name: str, stream: np.random.Generator) -> tuple[Canary, float]:
        """A canary whose secret is uniform, and its rank."""
        digits = stream.integers(DIGITS, size=len(self._steps)).tolist()
        cost = sum(int(self._steps[at, before, digit]) for at, (before, digit) in enumerate(pairwise([0, *digits])))
        return _canary(digits, name), float(self._cheaper[cost])

    def _canary(self, cost: int, name: str, stream: np.random.Generator) -> Canary:
        """One of the fillings of exactly that cost, each with the same chance."""
        digits: list[int] = []
        for position, step in enumerate(self._steps):
            costs = step[digits[-1] if digits else 0]
            ways = [self._after[position + 1][n, cost - each] if each <= cost else 0.0 for n, each in enumerate(costs)]
            digits.append(int(stream.choice(DIGITS, p=np.array(ways) / sum(ways))))
            cost -= int(costs[digits[-1]])
        return _canary(digits, name)


def _canary(digits: Sequence[int], name: str) -> Canary:
    return Canary(name, f"{{digits:{len(digits)}}}", tuple(map(str, digits)))

"""Models that are made-up tables of costs, whose every rank is known by sorting."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.targets.tokens.trie import TriePaths
from tests.attacks.text_array import text_array


class Table:
    """A target over the texts of ``digits`` digits: ``levels[d]`` are costs in bits of each digit after d of them.

    Shape ``[10^d, 10]``. A text's cost is the sum of its digits', so costs grow along a path as a model's do.
    """

    max_length = None

    def __init__(self, levels: list[np.ndarray]) -> None:
        self.levels = levels
        self.digits = len(levels)

    @classmethod
    def random(cls, digits: int, seed: int, sharpness: float) -> Table:
        """A table of random next-digit distributions, the further from uniform the higher ``sharpness``."""
        stream = np.random.default_rng(seed)
        levels = []
        for depth in range(digits):
            mass = np.exp2(sharpness * stream.normal(size=(10**depth, 10)))
            levels.append(-np.log2(mass / mass.sum(axis=1, keepdims=True)))
        return cls(levels)

    @cached_property
    def costs(self) -> np.ndarray:
        """The cost of every text, in numerical order."""
        total = np.zeros(1)
        for level in self.levels:
            total = (total[:, None] + level).ravel()
        return total

    def ranked(self, rank: int) -> Canary:
        """A canary whose secret has that rank."""
        number = int(np.argsort(self.costs)[rank - 1])
        return Canary("c", f"{{digits:{self.digits}}}", tuple(f"{number:0{self.digits}d}"))

    def log_perplexity(self, texts: list[str]) -> np.ndarray:
        return self.costs[[int(text) for text in texts]]

    def length(self, text: str) -> int:
        return len(text)

    def paths(self, space: Space) -> TriePaths:
        return self._paths

    @cached_property
    def _paths(self) -> TriePaths:
        space = Canary("c", f"{{digits:{self.digits}}}", ("0",) * self.digits).space
        return TriePaths(space, lambda texts: [[int(digit) for digit in text] for text in texts])

    def start(self, prefix: tuple[int, ...], columns: np.ndarray) -> tuple[Any, float, np.ndarray]:
        return text_array(np.zeros((1, 2), dtype=np.int64)), 0.0, self.levels[0][:, columns]

    def extend(self, texts: Any, tokens: Any, columns: Any) -> tuple[Any, np.ndarray]:
        # A text is its number of digits, and the number that they spell.
        depth, places = int(texts[0, 0]) + 1, np.asarray(texts[:, 1]) * 10 + tokens
        texts = text_array(np.column_stack([np.full(len(tokens), depth), places]))
        return texts, self.levels[depth][places][:, columns]

    def rows(self, length: int) -> int:
        return 4096

    def state_bytes(self, state: Any) -> int:
        return 0

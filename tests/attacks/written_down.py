"""A language model whose next-digit probabilities are written down, and searches of it in plain Python."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace

import torch

from leakage_tasks.canaries import Canary
from leakage_tasks.targets import CausalTarget
from tests.oracles import letters

DIGITS = "0123456789"
Chances = Callable[[str], Mapping[str, float]]
"""The probability of each digit after the digits so far; what is not named has none to speak of."""


class WrittenDown(torch.nn.Module):
    """After the letter x, digits with such chances; anything else is as likely as anything."""

    def __init__(self, chances: Chances) -> None:
        super().__init__()
        self.chances = chances
        self.config = SimpleNamespace(max_position_embeddings=64, get_text_config=lambda: self.config)
        self.config.vocab_size = len(letters())

    def forward(self, input_ids, use_cache=False):
        logits = torch.full((*input_ids.shape, len(letters())), -60.0)
        for row, text in zip(logits, letters().batch_decode(input_ids), strict=True):
            for digit, chance in self.chances(text.rsplit("x", 1)[-1]).items():
                row[-1, letters().convert_tokens_to_ids(digit)] = math.log(chance)
        return SimpleNamespace(logits=logits)


def target(chances: Chances) -> CausalTarget:
    return CausalTarget(WrittenDown(chances), letters(), device="cpu", cached=False)


def canary(secret: str) -> Canary:
    return Canary("c", f"x{{digits:{len(secret)}}}", tuple(secret))


def at_random(seed: int, sharpness: float = 1.5) -> Chances:
    """Log-normal weights, drawn anew after each beginning."""

    @cache
    def chances(held: str) -> dict[str, float]:
        stream = random.Random(f"{seed}:{held}")
        weights = [math.exp(sharpness * stream.gauss(0, 1)) for _ in DIGITS]
        return {digit: weight / sum(weights) for digit, weight in zip(DIGITS, weights, strict=True)}

    return chances


def cost(chances: Chances, text: str) -> float:
    """Bits of a run of digits."""
    return sum(-math.log2(chances(text[:place]).get(digit, 2**-80)) for place, digit in enumerate(text))


def by_cost(chances: Chances, slots: int) -> list[str]:
    """Every run of digits, cheapest first."""
    return sorted(map("".join, itertools.product(DIGITS, repeat=slots)), key=lambda text: cost(chances, text))


def beam(chances: Chances, slots: int, width: int) -> list[str]:
    """Beam search of The Secret Sharer, section 5.3: the ten cheapest that the last level kept leads to."""
    level = [""]
    for depth in range(slots):
        grown = sorted((held + digit for held in level for digit in DIGITS), key=lambda text: cost(chances, text))
        level = grown if depth == slots - 1 else grown[:width]
    return level[:10]


def batched_dijkstra(chances: Chances, slots: int, batch: int) -> tuple[list[str], int, int]:
    """The paper's batched search (section 5.4): the runs taken, cheapest first; iterations; the first run's."""
    queue, taken, iterations, first = [(0.0, "")], [], 0, None
    while queue and (first is None or iterations < 2 * first):
        iterations += 1
        pulled = [heapq.heappop(queue) for _ in range(min(batch, len(queue)))]
        for spent, held in pulled:
            if len(held) == slots:
                taken.append((spent, held))
                first = first or iterations
                continue
            for digit, chance in chances(held).items():
                heapq.heappush(queue, (spent - math.log2(chance), held + digit))
    return [held for _, held in sorted(taken)][:10], iterations, first

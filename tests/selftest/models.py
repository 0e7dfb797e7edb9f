"""Made-up targets and harness models for the self-test: right ones, and ones with one fault each."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import numpy as np
from lm_eval.api.model import LM

from leakage_tasks.canaries.spaces import Space
from leakage_tasks.selftest.subject import SelfTestSettings, Subject, fresh_canaries
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.tokens.trie import TriePaths
from tests.attacks.tables import Table
from tests.attacks.text_array import text_array

DIGITS = 4
SETTINGS = SelfTestSettings(f"{{digits:{DIGITS}}}", canaries=32, samples=200, budget=500)


@cache
def laid_out(space: Space) -> TriePaths:
    """The paths of a space of digits, a token each."""
    return TriePaths(space, lambda texts: [[int(digit) for digit in text] for text in texts])


class Bigrams(Table):
    """A target over digits of any number whose next digit's costs depend on the digit before; ``[11, 10]`` of them."""

    def __init__(self, seed: int = 0, sharpness: float = 1.0) -> None:
        mass = np.exp2(sharpness * np.random.default_rng(seed).normal(size=(11, 10)))
        self.table = -np.log2(mass / mass.sum(axis=1, keepdims=True))
        self.digits = DIGITS

    def log_perplexity(self, texts: list[str]) -> np.ndarray:
        rows = [[10, *map(int, text)] for text in texts]
        return np.array([sum(self.table[a, b] for a, b in zip(row, row[1:], strict=False)) for row in rows])

    def paths(self, space: Any) -> TriePaths:
        return laid_out(space)

    def start(self, prefix: tuple[int, ...], columns: np.ndarray) -> tuple[Any, float, np.ndarray]:
        cost = float(self.log_perplexity(["".join(map(str, prefix))])[0])
        last = prefix[-1] if prefix else 10
        return text_array(np.array([last])), cost, self.table[[last]][:, columns]

    def extend(self, texts: Any, tokens: Any, columns: Any) -> tuple[Any, np.ndarray]:
        return text_array(tokens), self.table[tokens][:, columns]


class Plain(LM):
    """A harness model that says what a target's texts cost, and nothing else."""

    def __init__(self, target: Any) -> None:
        super().__init__()
        self.target = target
        self.batch_size = 8
        self.model = np.zeros(0)

    def loglikelihood(self, requests: Any) -> list[tuple[float, bool]]:
        costs = self.target.log_perplexity([request.args[1] for request in requests])
        return [(-cost * LN2, False) for cost in costs]

    def loglikelihood_rolling(self, requests: Any) -> Any:
        raise NotImplementedError

    def generate_until(self, requests: Any) -> Any:
        raise NotImplementedError


class Full32(Plain):
    """The same with weights, in float32."""

    def __init__(self, target: Any) -> None:
        import torch

        super().__init__(target)
        self.model = torch.nn.Linear(1, 1)


def subject(target: Any, plain: Any = None, settings: SelfTestSettings = SETTINGS, **changes: Any) -> Subject:
    """``target`` under test, beside a harness whose own loglikelihood is ``plain``'s (default: the target's)."""
    canaries = fresh_canaries(str(settings.template), settings.canaries, settings.seed)
    return Subject(Full32(plain or target), target, settings, canaries, **changes)


def with_costs(target: Any, change: Any) -> Any:
    """A copy of a target whose costs of whole texts are ``change`` of them."""
    changed = copy.copy(target)
    changed.log_perplexity = lambda texts: change(target.log_perplexity(texts))
    return changed

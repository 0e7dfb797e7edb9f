"""How fast a model reads, from three timed passes of different sizes: so much a pass, so much a token."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls
from torch import nn

from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.planning.case import rows_at_once
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets.protocols import PredictsNextToken, ScoresLabels

TRIES = 2
"""Times that each pass is made; the quickest counts."""


@dataclass(frozen=True)
class Timed:
    """A timed call: passes, tokens read, seconds."""

    passes: int
    tokens: int
    seconds: float


@dataclass(frozen=True)
class Pace:
    """Seconds of a pass whatever it reads, and of each token, from three ``timed`` calls; rows ``at_once``."""

    a_pass: float
    a_token: float
    at_once: int
    timed: tuple[Timed, ...] = ()

    def seconds(self, passes: float, tokens: float) -> float:
        """What passes over so many tokens in all take."""
        return self.a_pass * passes + self.a_token * tokens


def pace_of(request: AttackRequest, modules: Sequence[nn.Module]) -> Pace:
    """Time the target on fillings of the canary's space: one row, a quarter of a full pass, a full pass."""
    target, space = request.target, request.canary.attack_space
    text = space.fill(request.canary.secret)
    at_once = rows_at_once(target, target.length(text) or len(text))
    fillings = space.sample(at_once, "plan") if space.slots else [request.canary.secret]
    texts = [space.fill(filling) for filling in fillings] or [text]
    ask = _steps(request) if isinstance(target, PredictsNextToken) else _whole_texts(request, texts)
    ask(1)
    sizes = sorted({1, max(1, at_once // 4), at_once})
    timed = tuple(_timed(ask, size, modules, len(text)) for size in sizes)
    a_pass, a_token = fitted(timed)
    return Pace(a_pass, a_token, at_once, timed)


def fitted(timed: Sequence[Timed]) -> tuple[float, float]:
    """Seconds of a pass and of a token, neither below 0: least squares of the relative errors."""
    weights = np.array([1 / max(each.seconds, 1e-9) for each in timed])
    table = np.array([[each.passes, each.tokens] for each in timed], dtype=np.float64)
    found, _ = nnls(table * weights[:, None], np.ones(len(timed)))
    return float(found[0]), float(found[1])


def _timed(ask: Any, size: int, modules: Sequence[nn.Module], length: int) -> Timed:
    best = np.inf
    for _ in range(TRIES):
        with metered(modules) as count:
            started = time.perf_counter()
            ask(size)
            best = min(best, time.perf_counter() - started)
    # What no module tells of, as an API's model: one call.
    return Timed(count.passes or 1, count.tokens or size * length, float(best))


def _steps(request: AttackRequest) -> Any:
    """A token more after the shared beginning, for so many rows."""
    target = request.target
    paths = target.paths(request.canary.attack_space)
    state, _, _ = target.start(paths.prefix, paths.columns)

    def ask(rows: int) -> None:
        zeros = np.zeros(rows, dtype=np.int64)
        target.extend([state], zeros, zeros, np.resize(paths.columns, rows), paths.columns)

    return ask


def _whole_texts(request: AttackRequest, texts: Sequence[str]) -> Any:
    target = request.target

    def ask(rows: int) -> None:
        chosen = [texts[index % len(texts)] for index in range(rows)]
        if isinstance(target, ScoresLabels):
            target.label_costs(target.encode(chosen))
        else:
            target.log_perplexity(chosen)

    return ask

"""The speed of a model, as seconds per forward pass and per token, from three timed passes of different sizes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls
from torch import nn

from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets.harness.texts import requests_at_once
from leakage_tasks.targets.protocols import PredictsNextToken, ScoresLabels

TRIES = 2
"""Number of repetitions of each timed pass; the fastest counts."""


@dataclass(frozen=True)
class Timed:
    """A timed call: forward passes, tokens and seconds."""

    passes: int
    tokens: int
    seconds: float


@dataclass(frozen=True)
class Pace:
    """Seconds per forward pass and per token, from the ``timed`` calls; a full pass has ``at_once`` rows."""

    a_pass: float
    a_token: float
    at_once: int
    timed: tuple[Timed, ...] = ()

    def seconds(self, passes: float, tokens: float) -> float:
        """Return the seconds for ``passes`` forward passes with ``tokens`` tokens in total."""
        return self.a_pass * passes + self.a_token * tokens


def pace_of(request: AttackRequest, modules: Sequence[nn.Module]) -> Pace:
    """Time the target on fillings of the canary's space: one row, a quarter of a full pass, and a full pass."""
    target, space = request.target, request.canary.attack_space
    text = space.fill(request.canary.secret)
    at_once = rows_at_once(target, target.length(text) or len(text))
    fillings = space.sample(at_once, "plan") if space.slots else [request.canary.secret]
    texts = [space.fill(filling) for filling in fillings] or [text]
    read_rows = _steps(request) if isinstance(target, PredictsNextToken) else _whole_texts(request, texts)
    read_rows(1)
    sizes = sorted({1, max(1, at_once // 4), at_once})
    timed = tuple(_timed(read_rows, size, modules, len(text)) for size in sizes)
    a_pass, a_token = fitted(timed)
    return Pace(a_pass, a_token, at_once, timed)


def rows_at_once(target: Any, length: int, own_tokens: int | None = None) -> int:
    """Return the rows per forward pass for rows of ``length`` tokens plus one, or for whole texts of which the last
    ``own_tokens`` tokens are read."""
    if isinstance(target, ScoresLabels) or hasattr(target, "batch"):
        return int(target.batch(length)) if hasattr(target, "batch") else 1
    if isinstance(target, PredictsNextToken):
        # A causal model takes fewer whole texts at once, since each has logits at every token.
        return (
            target.text_rows(length, own_tokens) if own_tokens and hasattr(target, "text_rows") else target.rows(length)
        )
    return requests_at_once(getattr(target, "_lm", None))


def fitted(timed: Sequence[Timed]) -> tuple[float, float]:
    """Fit seconds per pass and per token, both 0 or more, by least squares of the relative errors."""
    weights = np.array([1 / max(call.seconds, 1e-9) for call in timed])
    table = np.array([[call.passes, call.tokens] for call in timed], dtype=np.float64)
    solution, _ = nnls(table * weights[:, None], np.ones(len(timed)))
    return float(solution[0]), float(solution[1])


def _timed(read_rows: Any, size: int, modules: Sequence[nn.Module], length: int) -> Timed:
    best = np.inf
    for _ in range(TRIES):
        with metered(modules) as count:
            started = time.perf_counter()
            read_rows(size)
            best = min(best, time.perf_counter() - started)
    # Models without countable modules, such as an API's, count as one call.
    return Timed(count.passes or 1, count.tokens or size * length, float(best))


def _steps(request: AttackRequest) -> Any:
    """Return a function that reads one token after the shared prefix for a number of rows."""
    target = request.target
    paths = target.paths(request.canary.attack_space)
    state, _, _ = target.start(paths.prefix, paths.columns)

    def read_rows(rows: int) -> None:
        target.extend(state[np.zeros(rows, dtype=np.int64)], np.resize(paths.columns, rows), paths.columns)

    return read_rows


def _whole_texts(request: AttackRequest, texts: Sequence[str]) -> Any:
    target = request.target

    def read_rows(rows: int) -> None:
        chosen = [texts[index % len(texts)] for index in range(rows)]
        if isinstance(target, ScoresLabels):
            target.label_costs(target.encode(chosen))
        else:
            target.log_perplexity(chosen)

    return read_rows

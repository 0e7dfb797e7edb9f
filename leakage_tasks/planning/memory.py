"""The memory of a run: weights, the rows of one pass, and states that a search keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.planning.meter import modules_of
from leakage_tasks.targets.memory import LOGIT_BYTES
from leakage_tasks.targets.memory_budget import MemoryBudget
from leakage_tasks.targets.protocols import PredictsNextToken


@dataclass(frozen=True)
class Memory:
    """Bytes: of the weights, of one full pass, and of states that searches keep or are just given, at most."""

    weights: int
    batch: int
    kept: int

    @property
    def total(self) -> int:
        """All together."""
        return self.weights + self.batch + self.kept

    def larger(self, other: Memory) -> Memory:
        """What holds for both."""
        return Memory(*(max(pair) for pair in zip(vars(self).values(), vars(other).values(), strict=True)))


def memory_of(request: AttackRequest, lm: Any, at_once: int, canaries: int = 1) -> Memory:
    """What an attack's search takes at most, on so many canaries together; of weights that cannot be seen nothing."""
    weights = {id(parameter): parameter for module in modules_of(lm) for parameter in module.parameters()}
    size = sum(weight.numel() * weight.element_size() for weight in weights.values())
    target, config = request.target, getattr(getattr(request.target, "model", None), "config", None)
    width = int(getattr(config, "vocab_size", None) or 0)
    if not isinstance(target, PredictsNextToken):
        length = target.length(request.canary.attack_space.fill(request.canary.secret)) or 1
        row = target.row_bytes(length) if hasattr(target, "row_bytes") else LOGIT_BYTES * width * length
        return Memory(size, row * at_once, 0)
    paths = target.paths(request.canary.attack_space)
    state, _, _ = target.start(paths.prefix, paths.columns)
    row = _largest_row(target, state, paths)
    allowed = getattr(target, "states", None) or MemoryBudget(getattr(target, "device", None))
    rows, own = request.budget * canaries, row + LOGIT_BYTES * width
    # A pass copies what its rows share, and of a translation what they look at, beside what they keep of their own.
    source = getattr(getattr(target, "source", None), "nbytes", 0)
    batch = at_once * (own + target.state_bytes(state) + source)
    if getattr(target, "batch_size", None) is None:
        # The rows of a pass are doubled while that makes one cheaper.
        batch = max(batch, min(allowed.rows, rows * own))
    return Memory(size, batch, min(2 * allowed.most, rows * row))


def _largest_row(target: Any, state: Any, paths: Any) -> int:
    """Bytes that a row keeps for itself at the end of the longest path, by what its first two tokens take."""
    one, taken = np.zeros(1, dtype=np.int64), []
    for _ in range(2):
        state, _ = target.extend([state], one, one, paths.columns[:1].copy(), paths.columns)
        taken.append(target.state_bytes(state))
    return int(taken[0] + max(paths.longest - 2, 0) * (taken[1] - taken[0]))

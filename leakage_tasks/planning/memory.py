"""The memory of a run: weights, the rows of one forward pass, and KV caches that a search keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.planning.meter import modules_of
from leakage_tasks.targets.memory import LOGIT_BYTES, MemoryBudget
from leakage_tasks.targets.protocols import PredictsNextToken


@dataclass(frozen=True)
class Memory:
    """Bytes of the weights, of one full forward pass, and of cached states that searches hold at most."""

    weights: int
    batch: int
    kept: int

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return self.weights + self.batch + self.kept

    def larger(self, other: Memory) -> Memory:
        """Return the larger value of each part."""
        return Memory(*(max(pair) for pair in zip(vars(self).values(), vars(other).values(), strict=True)))


def memory_of(request: AttackRequest, lm: Any, at_once: int, canaries: int = 1) -> Memory:
    """Return the maximum memory of a search on ``canaries`` canaries together. Weights outside this process count as
    0."""
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
    rows, row_bytes = request.budget * canaries, row + LOGIT_BYTES * width
    # A forward pass copies the states before each row, and a translation's encoder states.
    source = getattr(getattr(target, "source", None), "nbytes", 0)
    copied = (len(paths.prefix) + paths.longest) * getattr(getattr(target, "engine", None), "copied_bytes", 0.0)
    batch = int(at_once * (row_bytes + copied + source))
    if getattr(target, "batch_size", None) is None:
        # The number of rows per pass is doubled as long as this makes a row faster.
        batch = max(batch, min(allowed.rows, rows * row_bytes))
    return Memory(size, batch, min(2 * allowed.most, rows * row))


def _largest_row(target: Any, state: Any, paths: Any) -> int:
    """Return the bytes that a row stores itself at the end of the longest path, extrapolated from its first two
    tokens."""
    taken = []
    for _ in range(2):
        state, _ = target.extend(state, paths.columns[:1].copy(), paths.columns)
        taken.append(target.state_bytes(state))
    return int(taken[0] + max(paths.longest - 2, 0) * (taken[1] - taken[0]))

"""Two models of one tokenizer as one: what the first finds cheaper than the second."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.causal.target import CausalInContext, CausalTarget
from leakage_tasks.targets.protocols import PredictsNextToken
from leakage_tasks.targets.suffix.target import load_causal_target


class Contrast:
    """Two targets of one tokenizer as one, whose costs in bits are the first's minus the second's."""

    costs_grow = False

    def __init__(self, target: PredictsNextToken, reference: PredictsNextToken) -> None:
        self.target, self.reference = target, reference
        self.states = getattr(target, "states", None)

    def paths(self, space: Space) -> Any:
        """The token paths of a space, which are those of both."""
        return self.target.paths(space)

    def start(self, prefix: Sequence[int], columns: IntArray) -> tuple[Any, float, FloatArray]:
        """See :class:`~leakage_tasks.targets.protocols.PredictsNextToken`."""
        mine, cost, following = self.target.start(prefix, columns)
        other, less, fewer = self.reference.start(prefix, columns)
        return (mine, other), cost - less, following - fewer

    def extend(
        self, states: Sequence[Any], which: IntArray, rows: IntArray, tokens: IntArray, columns: IntArray
    ) -> tuple[Any, FloatArray]:
        """See :class:`~leakage_tasks.targets.protocols.PredictsNextToken`."""
        mine, following = self.target.extend([state[0] for state in states], which, rows, tokens, columns)
        other, fewer = self.reference.extend([state[1] for state in states], which, rows, tokens, columns)
        return (mine, other), following - fewer

    def rows(self, length: int) -> int:
        """How many texts of ``length`` tokens one batch may hold."""
        return min(self.target.rows(length), self.reference.rows(length))

    def state_bytes(self, state: Any) -> int:
        """Memory that a state of both keeps occupied."""
        return self.target.state_bytes(state[0]) + self.reference.state_bytes(state[1])


def reference_named(name: str, target: Any, space: Space, option: str) -> PredictsNextToken:
    """A reference model as a target that reads the space as ``target`` does, on its device and in its precision.

    Raises TargetError, which blames ``option``, for one that cannot be loaded or reads the canary as other tokens.
    """
    model = getattr(target, "model", None)
    where = (torch.device("cpu"), None) if model is None else (model.device, model.dtype)
    found: CausalTarget = _loaded(name, option, *where)
    if isinstance(target, CausalInContext):
        found = found.in_context(target.context, space)
    mine, other = target.paths(space), found.paths(space)
    if list(mine.prefix) != list(other.prefix) or mine.columns.tolist() != other.columns.tolist():
        raise TargetError(f"{option}={name} reads the canary as other tokens: give one with the same tokenizer")
    return found


@lru_cache(maxsize=1)
def _loaded(name: str, option: str, device: torch.device, dtype: torch.dtype | None) -> CausalTarget:
    return load_causal_target(name, f"{option}={name}", device, None, dtype)

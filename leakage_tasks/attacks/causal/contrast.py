"""Two models with one tokenizer as one target, whose costs are the differences of the two models' costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.causal.target import CausalInContext, CausalTarget
from leakage_tasks.targets.protocols import PredictsNextToken
from leakage_tasks.targets.suffix.target import load_causal_target


@dataclass(frozen=True)
class TextPairs:
    """Texts that two models have read."""

    target: Any
    reference: Any

    def __len__(self) -> int:
        return len(self.target)

    def __getitem__(self, chosen: Any) -> TextPairs:
        return TextPairs(self.target[chosen], self.reference[chosen])

    @classmethod
    def joined(cls, parts: Sequence[TextPairs]) -> TextPairs:
        """Concatenate texts."""
        mine, other = ([getattr(part, name) for part in parts] for name in ("target", "reference"))
        return cls(type(mine[0]).joined(mine), type(other[0]).joined(other))


class Contrast:
    """Two targets with one tokenizer as one target; its costs in bits are the first's minus the second's."""

    costs_grow = False

    def __init__(self, target: PredictsNextToken, reference: PredictsNextToken) -> None:
        self.target, self.reference = target, reference
        self.states = getattr(target, "states", None)

    def paths(self, space: Space) -> Any:
        """Return the token paths of a space, which are equal for both targets."""
        return self.target.paths(space)

    def start(self, prefix: Sequence[int], columns: IntArray) -> tuple[Any, float, FloatArray]:
        """Read the prefix with both models; return their texts and the differences of their costs in bits."""
        mine, cost, following = self.target.start(prefix, columns)
        other, less, fewer = self.reference.start(prefix, columns)
        return TextPairs(mine, other), cost - less, following - fewer

    def extend(self, texts: TextPairs, tokens: IntArray, columns: IntArray) -> tuple[TextPairs, FloatArray]:
        """Read one more token per text with both models.

        Args:
            texts: The texts of target and reference.
            tokens: Token of each text, ``[n]``.
            columns: The tokens whose costs are returned, ``[A]``.

        Returns:
            The new texts, and the cost differences in bits ``[n, A]``.
        """
        mine, following = self.target.extend(texts.target, tokens, columns)
        other, fewer = self.reference.extend(texts.reference, tokens, columns)
        return TextPairs(mine, other), following - fewer

    def rows(self, length: int) -> int:
        """Return the number of texts of ``length`` tokens that fit into one batch."""
        return min(self.target.rows(length), self.reference.rows(length))

    def state_bytes(self, texts: TextPairs) -> int:
        """Return the memory of texts of both models in bytes."""
        return self.target.state_bytes(texts.target) + self.reference.state_bytes(texts.reference)


def reference_named(name: str, target: Any, space: Space, option: str) -> PredictsNextToken:
    """Load a reference model with the device, precision and context of ``target``.

    Args:
        name: Name or folder of the reference model.
        target: The target of the attack.
        space: The canary's space.
        option: Name of the option, for errors.

    Returns:
        The reference model as a target.

    Raises:
        TargetError: The model cannot be loaded or tokenizes the canary differently.
    """
    model = getattr(target, "model", None)
    placement = (torch.device("cpu"), None) if model is None else (model.device, model.dtype)
    reference: CausalTarget = _loaded(name, option, *placement)
    if isinstance(target, CausalInContext):
        reference = reference.in_context(target.context, space)
    mine, other = target.paths(space), reference.paths(space)
    if list(mine.prefix) != list(other.prefix) or mine.columns.tolist() != other.columns.tolist():
        raise TargetError(f"{option}={name} tokenizes the canary differently: use a model with the target's tokenizer")
    return reference


@lru_cache(maxsize=1)
def _loaded(name: str, option: str, device: torch.device, dtype: torch.dtype | None) -> CausalTarget:
    return load_causal_target(name, f"{option}={name}", device, None, dtype)

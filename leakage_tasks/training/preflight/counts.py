"""Counts of the copies of one canary in checked training data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

State = Literal["in the loss", "in the context only", "absent"]


@dataclass
class CanaryCounts:
    """Counts of the copies of one canary in the checked rows."""

    canary: str
    """The canary's id."""
    planted: int
    """Number of copies in the manifest; 0 for a control."""
    kind: str
    """Kind of the secret, as in the manifest."""
    whole: int = 0
    """Copies that the model reads completely."""
    cut: int = 0
    """Copies that the model reads in part: truncated, or divided between rows."""
    changed: int = 0
    """Copies that continue with other words than the canary, and secrets among other words."""
    in_loss: int = 0
    """Whole copies with all tokens of the secret in the loss."""
    in_part: int = 0
    """Whole copies with some tokens of the secret in the loss."""
    share: float = 0.0
    """Share of the secret's tokens that are in the loss, mean over whole copies."""
    sides: dict[str, int] = field(default_factory=dict)
    """In preference training, numbers of whole copies among ``chosen`` and ``rejected`` answers."""
    reached: bool | None = None
    """True if the loss of the secret has a gradient at a trained weight; None if unknown."""

    @property
    def state(self) -> State:
        """The role of its secret in training: in the loss, only in the context, or absent."""
        if (self.in_loss or self.in_part) and self.reached is not False:
            return "in the loss"
        return "in the context only" if self.whole else "absent"

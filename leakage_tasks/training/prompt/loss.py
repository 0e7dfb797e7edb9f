"""What a soft prompt is tuned to lower: the suffix' loss, and that of its hardest tokens once more.

Ethicist (003), Section 3.2, Equations 1 to 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

IGNORED = -100
"""Marks the places of a target row that hold no suffix token."""


@dataclass(frozen=True)
class PromptLoss:
    """Both losses, in bits a token, mean over the pairs."""

    mle: float
    """Equation 1: mean cost of a suffix' tokens."""
    smoothing: float
    """Equation 2: mean cost of its N dearest."""
    total: float
    """Equation 3: ``mle`` + α · ``smoothing``."""


@dataclass(frozen=True)
class PromptEpoch:
    """Losses of an epoch: while training in it, and on the validation pairs after it."""

    epoch: int
    training: PromptLoss
    validation: PromptLoss


def token_costs(logits: Tensor, targets: Tensor) -> Tensor:
    """−ln p of each target [rows, places], float32, from logits [rows, places, vocabulary]; 0 where ignored."""
    from torch.nn.functional import cross_entropy

    flat = cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED, reduction="none")
    return flat.view(targets.shape)


def suffix_losses(costs: Tensor, targets: Tensor, hardest: int) -> tuple[Tensor, Tensor]:
    """Equations 1 and 2 of each row, [rows] each, in the unit of ``costs`` [rows, places].

    The N = ``hardest`` dearest tokens are those of these very costs; a suffix shorter than N gives all it has.
    """
    real = targets != IGNORED
    lengths = real.sum(1)
    mle = costs.sum(1) / lengths
    if not hardest:
        return mle, costs.new_zeros(len(costs))
    nothing = float("-inf")
    dearest = costs.masked_fill(~real, nothing).topk(min(hardest, costs.shape[1]), dim=1).values
    taken = dearest.masked_fill(dearest == nothing, 0.0)
    return mle, taken.sum(1) / lengths.clamp(max=hardest)

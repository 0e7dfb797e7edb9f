"""Figures of next-token distributions, computed a slice at a time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.suffix.truncation import slices


@dataclass(frozen=True)
class OwnFigures:
    """Of ``n`` distributions as the model has them: normaliser in nats, entropy in bits, the two largest logits."""

    log_total: Tensor
    entropy: Tensor
    top: Tensor

    @classmethod
    def of(cls, logits: Tensor) -> OwnFigures:
        """From logits ``[n, V]`` in float32."""
        parts = [_figures(part) for part in slices(logits)]
        return cls(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def bits(self, logits: Tensor) -> Tensor:
        """Costs ``[n]`` of the tokens that have ``logits`` ``[n]``."""
        return (self.log_total - logits) / LN2

    def margin(self, logits: Tensor) -> Tensor:
        """Probability of the tokens that have ``logits`` ``[n]`` less that of the likeliest other one."""
        rival = torch.where(logits >= self.top[:, 0], self.top[:, 1], self.top[:, 0])
        return (logits - self.log_total).exp() - (rival - self.log_total).exp()


def _figures(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    top = logits.topk(2, dim=1).values
    shifted = logits - top[:, :1]
    weights = shifted.exp()
    total = weights.sum(1)
    log_total = total.log()
    # Some models rule tokens out with −inf, which a weight of 0 would turn into NaN.
    entropy = log_total - (weights * shifted.clamp_(min=-1e6)).sum(1) / total
    return log_total + top[:, 0], entropy / LN2, top

"""A test if a model predicts the next token: later tokens then change no probability of earlier ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from leakage_tasks.core.errors import TargetError
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.rounding import explains

AHEAD = 1e-5
"""Difference in bits that a later token is always allowed to make to the costs of earlier tokens."""


def check_later_tokens(target: CausalTarget, row: Sequence[int], where: str = "") -> None:
    """Raise TargetError if the last token of ``row`` changes the probabilities that the model gives earlier tokens.

    A model whose probabilities are NaN raises TargetError too. The errors begin with ``where``. A model that cannot be
    read at all raises no error here.
    """
    try:
        rows = torch.tensor([[*row], [*row[:-1], int(row[-1] == 0)]], device=target.device)
        with target.inference():
            costs = target.read(rows, len(row))[:, :-1].log_softmax(-1)
        changed = float((costs[0] - costs[1]).abs().max()) / LN2
        rounded = changed <= AHEAD or explains(target.noise, [costs[0]], [costs[1]])
    except Exception:  # the caller's next use of the model reports the reason
        return
    if costs.isnan().any():
        raise TargetError(
            f"{where}{type(target.model).__name__} gives probabilities that are not numbers (NaN): load it with "
            "dtype=float32 if it computes in float16, whose numbers end at 65,504; otherwise look for damaged weights"
        )
    if not rounded:
        raise TargetError(
            f"{where}{type(target.model).__name__} reads later tokens before it gives a token's probability, so it "
            "gives texts no log-likelihood: use a model that predicts the next token"
        )

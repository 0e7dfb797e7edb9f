"""Which of many values are worth scoring, told from one backward pass instead of a forward pass each.

The loss after putting a value v into a slot is, to first order around an embedding e0, loss(e0) + g·(e_v − e0), g its
gradient in the slot's input embedding (as HotFlip ranks substitutions; Ebrahimi et al. 2018). The order by g·e_v costs
one pass forward and one back; only its best ``m`` are then scored for certain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leakage_tasks.attacks.class_scores import ClassScores, single_tokens
from leakage_tasks.attacks.registry import Setting
from leakage_tasks.errors import TargetError
from leakage_tasks.targets.protocols import DifferentiableInputs, FloatArray, IntArray

MEAN, AT_MASK = "mean", "mask"
SHORTLIST = Setting("shortlist", int, None, "how many values a slot are scored after the gradient's order", least=1)
SHORTLIST_AT = Setting(
    "shortlist_at", str, MEAN, "the embedding the gradient is taken at: the values' mean, or the mask", (MEAN, AT_MASK)
)
AUDIT = Setting("audit", bool, False, "whether to score all values too and report what the shortlist kept")


def first_order(scores: ClassScores, heads: IntArray, at: str) -> FloatArray:
    """The approximate loss of every value of the next slot after each head ``[n, k]``, shape ``[n, A]``, in bits.

    Raises TargetError where the model gives no gradients, or values are several tokens.
    """
    import torch

    target: Any = scores.target
    if not isinstance(target, DifferentiableInputs):
        raise TargetError("shortlist=… needs a model that is differentiable in its inputs: leave it out")
    slot = heads.shape[1]
    tokens, column = single_tokens(scores, slot)
    rows = np.asarray(scores.rows.of(np.concatenate([heads, np.zeros((len(heads), 1), dtype=np.int64)], axis=1)))
    matrix = target.embeddings()
    values = matrix[torch.from_numpy(tokens).to(matrix.device)]
    place = _start(target, values, at)
    found = []
    for part in np.array_split(rows, -(-len(rows) // target.batch(rows.shape[1]))):
        embedded = matrix[torch.from_numpy(part).to(matrix.device)].clone()
        embedded[:, column] = place
        embedded.requires_grad_(True)
        losses = target.label_costs_of(part, embedded)[:, scores.label]
        (gradient,) = torch.autograd.grad(losses.sum(), embedded)
        steps = gradient[:, column].float() @ (values - place).float().T
        found.append((losses[:, None].detach() + steps).cpu().double().numpy())
    scores.calls += 2 * len(rows)
    return np.concatenate(found)


def _start(target: Any, values: Any, at: str) -> Any:
    if at == MEAN:
        return values.mean(0)
    mask = target.tokenizer.mask_token_id
    if mask is None:
        raise TargetError("shortlist_at=mask needs a tokenizer with a mask token: use shortlist_at=mean")
    return target.embeddings()[mask]

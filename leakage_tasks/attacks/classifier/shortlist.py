"""Which of many values are worth scoring, told from one backward pass instead of a forward pass each.

The loss after putting a value v into a slot is, to first order around an embedding e0, loss(e0) + g·(e_v − e0), g its
gradient in the slot's input embedding (as HotFlip ranks substitutions; Ebrahimi et al. 2018). That order costs one pass
forward and one back; only its best ``m`` are then scored for certain. A value is judged better from a point nearby, so
gradients are taken at some of the values themselves, in one batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leakage_tasks.attacks.classifier.class_scores import ClassScores
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.protocols import DifferentiableInputs

POINTS, MEAN, AT_MASK = "points", "mean", "mask"
NUMBER = 64
REACH = 0.1
"""How fast a point's word loses weight with distance, as a share of the mean distance."""
SHORTLIST = Option(
    "shortlist",
    int,
    None,
    "how many values a slot are scored after the gradient's order",
    minimum=1,
    usual="all that the budget pays for",
)
SHORTLIST_AT = Option(
    "shortlist_at",
    str,
    POINTS,
    "where gradients are taken: at 64 of the values (where several fillings go on: at the mean), at the values' mean, "
    "or at the mask",
    (POINTS, MEAN, AT_MASK),
)
AUDIT = Option(
    "audit", bool, False, "whether to score all values too and report what the shortlist kept", affects_results=False
)


def first_order(scores: ClassScores, heads: IntArray, at: str) -> FloatArray:
    """The approximate loss of every value of the next slot after each head ``[n, k]``, shape ``[n, A]``, in bits.

    At ``points`` a single head's values are judged from 64 values drawn at random, read in one batch, the nearest
    counting most; several heads, and ``mean`` and ``mask``, have one point each. Raises TargetError where the model
    gives no gradients, or values are several tokens.
    """
    import torch

    target: Any = scores.target
    if not isinstance(target, DifferentiableInputs):
        raise TargetError("shortlist=… needs a model that is differentiable in its inputs: leave it out")
    slot = heads.shape[1]
    tokens, column = scores.rows.single(slot), scores.rows.column(slot)
    if tokens is None or column is None:
        raise TargetError(
            "shortlist=… ranks values that are one token each, and some here are more: leave it out, or use a "
            "tokenizer's whole words"
        )
    rows = np.asarray(scores.rows.of(np.concatenate([heads, np.zeros((len(heads), 1), dtype=np.int64)], axis=1)))
    matrix = target.embeddings()
    values = matrix[torch.from_numpy(tokens).to(matrix.device)]
    if at == POINTS and len(heads) == 1:
        drawn = np.random.default_rng(0).permutation(len(values))[:NUMBER]
        starts = values[torch.from_numpy(drawn).to(matrix.device)]
        rows = np.repeat(rows, len(starts), axis=0)
    else:
        starts = _start(target, values, at).expand(len(rows), -1)
    likely = _extended(target, rows, column, scores.label, starts, values)
    scores.calls += 2 * len(rows)
    return (_near(starts, values) * likely).sum(0, keepdims=True) if len(rows) > len(heads) else likely


def _extended(target: Any, rows: IntArray, column: int, label: int, starts: Any, values: Any) -> FloatArray:
    """For each row, the loss at its start extended to every value by the gradient there, ``[n, A]``."""
    import torch

    from leakage_tasks.targets.memory import RowLimit

    matrix = target.embeddings()

    def extended(part: slice) -> FloatArray:
        embedded = matrix[torch.from_numpy(rows[part]).to(matrix.device)].clone()
        embedded[:, column] = starts[part]
        embedded.requires_grad_(True)
        losses = target.label_costs_of(rows[part], embedded)[:, label]
        (gradient,) = torch.autograd.grad(losses.sum(), embedded)
        slope = gradient[:, column].float()
        steps = slope @ values.float().T - (slope * starts[part].float()).sum(1, keepdim=True)
        found: FloatArray = (losses[:, None].detach() + steps).cpu().double().numpy()
        return found

    return np.concatenate(RowLimit().parts(len(rows), extended, target.batch(rows.shape[1])))


def _near(starts: Any, values: Any) -> FloatArray:
    """How much each point counts for each value, ``[points, A]``; the points' shares add up to 1."""
    import torch

    distance = torch.cdist(starts.float(), values.float())
    return torch.softmax(-distance / (REACH * distance.mean()), 0).cpu().double().numpy()


def _start(target: Any, values: Any, at: str) -> Any:
    if at != AT_MASK:
        return values.mean(0)
    mask = target.tokenizer.mask_token_id
    if mask is None:
        raise TargetError("shortlist_at=mask needs a tokenizer with a mask token: use another shortlist_at")
    return target.embeddings()[mask]

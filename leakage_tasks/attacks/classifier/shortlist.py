"""A shortlist of values to score, computed by one backward pass instead of a forward pass per value.

To first order around an embedding e0, the loss with a value v in a slot is loss(e0) + g·(e_v − e0), with g the gradient
of the loss in the slot's input embedding (as HotFlip ranks substitutions; Ebrahimi et al. 2018). This ranking costs one
forward and one backward pass; only its best ``m`` values are then scored exactly. The approximation is better near the
point e0, so gradients are taken at some of the values themselves, in one batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leakage_tasks.attacks.classifier.class_scores import ClassScores, Side
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.protocols import DifferentiableInputs

POINTS, MEAN, AT_MASK = "points", "mean", "mask"
NUMBER = 64
REACH = 0.1
"""The distance over which a point's weight falls by a factor of e, as a share of the mean distance."""
SHORTLIST = Option(
    "shortlist",
    int,
    None,
    "number of values per slot to score exactly, after all are ranked by gradient",
    minimum=1,
    usual="as many as the budget allows",
)
SHORTLIST_AT = Option(
    "shortlist_at",
    str,
    POINTS,
    "points at which gradients are computed: at 64 of the values (for several fillings at the mean), at the values' "
    "mean, or at the mask",
    (POINTS, MEAN, AT_MASK),
)
AUDIT = Option(
    "audit",
    bool,
    False,
    "score all values as well and report the share of the ten best values that the shortlist has",
    affects_results=False,
)


def first_order(scores: ClassScores, heads: IntArray, at: str) -> FloatArray:
    """Return the approximate score in bits of every value of the next slot after each head ``[n, k]``, ``[n, A]``.

    A calibrated score is the difference of the approximations on both classifiers. With ``points`` and a single head,
    gradients are taken at 64 random values in one batch, and the nearest values have the largest weight. With several
    heads, ``mean`` or ``mask``, there is one point per head. Raises TargetError if a model has no gradients or a value
    has several tokens.
    """
    (approximate, rows), *reference = (_of_side(side, heads, at) for side in scores.sides)
    scores.calls += 2 * rows
    return approximate - reference[0][0] if reference else approximate


def _of_side(side: Side, heads: IntArray, at: str) -> tuple[FloatArray, int]:
    """Return the approximate losses on one classifier, and the number of rows that it reads for them."""
    import torch

    target, slot = side.target, heads.shape[1]
    if not isinstance(target, DifferentiableInputs):
        raise TargetError("shortlist=… needs a model that is differentiable in its inputs: leave it out")
    tokens, column = side.rows.single(slot), side.rows.column(slot)
    if tokens is None or column is None:
        raise TargetError(
            "shortlist=… needs values of one token each, and some values have more: leave it out, or use a "
            "tokenizer's whole words"
        )
    rows = np.asarray(side.rows.of(np.concatenate([heads, np.zeros((len(heads), 1), dtype=np.int64)], axis=1)))
    matrix: Any = target.embeddings()
    values = matrix[torch.from_numpy(tokens).to(matrix.device)]
    if at == POINTS and len(heads) == 1:
        drawn = np.random.default_rng(0).permutation(len(values))[:NUMBER]
        starts = values[torch.from_numpy(drawn).to(matrix.device)]
        rows = np.repeat(rows, len(starts), axis=0)
    else:
        starts = _start(target, values, at).expand(len(rows), -1)
    likely = _extended(target, rows, column, side.label, starts, values)
    if len(rows) > len(heads):
        likely = (_near(starts, values) * likely).sum(0, keepdims=True)
    return likely, len(rows)


def _extended(target: Any, rows: IntArray, column: int, label: int, starts: Any, values: Any) -> FloatArray:
    """Extrapolate each row's loss from its start to every value by the gradient, ``[n, A]``."""
    import torch

    from leakage_tasks.targets.devices import double_array
    from leakage_tasks.targets.pass_rows import RowLimit

    matrix = target.embeddings()

    def extended(part: slice) -> FloatArray:
        embedded = matrix[torch.from_numpy(rows[part]).to(matrix.device)].clone()
        embedded[:, column] = starts[part]
        embedded.requires_grad_(True)
        losses = target.label_costs_of(rows[part], embedded)[:, label]
        (gradient,) = torch.autograd.grad(losses.sum(), embedded)
        slope = gradient[:, column].float()
        steps = slope @ values.float().T - (slope * starts[part].float()).sum(1, keepdim=True)
        approximate: FloatArray = double_array(losses.detach())[:, None] + double_array(steps)
        return approximate

    return np.concatenate(RowLimit().parts(len(rows), extended, target.batch(rows.shape[1])))


def _near(starts: Any, values: Any) -> FloatArray:
    """Return the weight of each point for each value, ``[points, A]``; the weights of a value sum to 1."""
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

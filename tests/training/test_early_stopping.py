"""Early stopping: which epoch is kept, when training ends, and what a missing score is worth."""

from __future__ import annotations

import math

import pytest
import torch

from leakage_tasks.training.early_stopping import EarlyStopping

Scores = list[tuple[float | None, ...]]


def stopped(patience: int | None, scores: Scores) -> tuple[int, int, float]:
    """(epochs run, best epoch, the weight kept), the weight being the epoch's number."""
    model = torch.nn.Linear(1, 1, bias=False)
    stopping = EarlyStopping[tuple[float | None, ...]](patience, lambda score: score, model.state_dict)
    epoch = 0
    for epoch, score in enumerate(scores, 1):
        with torch.no_grad():
            model.weight.fill_(epoch)
        if stopping.update(epoch, score):
            break
    return epoch, stopping.restore(model), float(model.weight.detach())


@pytest.mark.parametrize(
    ("patience", "scores", "expected"),
    [
        (1, [(3.0,), (2.0,), (2.0,), (1.0,)], (3, 2)),
        (2, [(3.0,), (2.0,), (2.0,), (1.0,)], (4, 4)),
        (None, [(1.0,), (2.0,), (3.0,)], (3, 1)),
        (3, [(-0.5, 2.0), (-0.5, 1.0), (-0.4, 0.0)], (3, 2)),
        (9, [(math.nan,), (None,), (7.0,)], (3, 3)),
        (9, [(7.0,), (math.nan,), (None,)], (3, 1)),
        (2, [(math.nan,), (math.nan,), (math.nan,), (1.0,)], (3, 1)),
    ],
)
def test_the_first_of_the_best_epochs_is_kept_until_patience_ends(
    patience: int | None, scores: Scores, expected: tuple[int, int]
) -> None:
    assert stopped(patience, scores) == (*expected, expected[1])

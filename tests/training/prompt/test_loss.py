"""The losses of Ethicist, Section 3.2, against the equations written out."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.training.prompt.loss import IGNORED, suffix_losses, token_costs

COST = st.floats(0.0, 50.0, width=32)
ROW = st.tuples(st.integers(0, 3), st.lists(COST, min_size=1, max_size=8), st.integers(0, 3))


@given(st.lists(ROW, min_size=1, max_size=5), st.integers(0, 10))
def test_both_losses_are_those_of_the_equations(rows: list, hardest: int) -> None:
    width = max(before + len(costs) + after for before, costs, after in rows)
    laid, targets = torch.zeros(len(rows), width), torch.full((len(rows), width), IGNORED)
    for number, (before, costs, _) in enumerate(rows):
        laid[number, before : before + len(costs)] = torch.tensor(costs)
        targets[number, before : before + len(costs)] = 1
    mle, smoothing = suffix_losses(laid, targets, hardest)
    for number, (_, costs, _) in enumerate(rows):
        top = sorted(costs)[-hardest:] if hardest else []
        assert float(mle[number]) == pytest.approx(math.fsum(costs) / len(costs), rel=1e-5, abs=1e-6)
        assert float(smoothing[number]) == pytest.approx(math.fsum(top) / max(len(top), 1), rel=1e-5, abs=1e-6)


def test_only_the_hardest_tokens_get_the_smoothing_gradient() -> None:
    costs = torch.tensor([[3.0, 1.0, 2.0, 0.0], [5.0, 4.0, 0.0, 0.0]], requires_grad=True)
    targets = torch.tensor([[1, 1, 1, 1], [1, 1, IGNORED, IGNORED]])
    suffix_losses(costs, targets, 3)[1].sum().backward()
    assert costs.grad is not None
    third = pytest.approx(1 / 3)
    assert costs.grad[0].tolist() == [third, third, third, 0]
    assert costs.grad[1].tolist() == [0.5, 0.5, 0, 0]


def test_costs_are_nats_in_float32_whatever_the_logits() -> None:
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0)).bfloat16()
    targets = torch.tensor([[0, 4, 2], [1, IGNORED, 3]])
    found = token_costs(logits, targets)
    assert found.dtype == torch.float32
    for row, place in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2)):
        values = [math.exp(float(value)) for value in logits[row, place]]
        expected = -math.log(values[int(targets[row, place])] / sum(values))
        assert float(found[row, place]) == pytest.approx(expected, abs=1e-5)
    assert float(found[1, 1]) == 0

"""Learning rows, held against AdamW stepped by hand with rates written out."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
import torch

from leakage_tasks.training.learn_rows import AdamWConfig, ProgressLabels, Rows, learn_rows
from leakage_tasks.training.loop import BatchLoss

ROWS = [[1, 2], [0, 1], [2, 2], [1, 0], [0, 0], [2, 1]]
COURSE = AdamWConfig(epochs=4, batch_size=2, learning_rate=0.1, weight_decay=0.01, warm_up=0.25, seed=5)
RATES = [1 / 4, 2 / 4, 3 / 4, 9 / 9, 8 / 9, 7 / 9, 6 / 9, 5 / 9, 4 / 9, 3 / 9, 2 / 9, 1 / 9]
"""Shares of the learning rate: a quarter of twelve steps rise."""


def model_of() -> torch.nn.Embedding:
    """Vectors of three tokens."""
    torch.manual_seed(0)
    return torch.nn.Embedding(3, 2)


def loss_of(model: torch.nn.Embedding, seen: list[Rows] | None = None) -> Callable[[Rows], BatchLoss]:
    """How far a row's two vectors are from 1 and −1."""

    def loss(rows: Rows) -> BatchLoss:
        if seen is not None:
            seen.append(rows)
        found = model(torch.tensor(rows))
        apart = (found - torch.tensor([[1.0], [-1.0]])).square().sum((1, 2))
        return BatchLoss(apart.mean(), apart.sum().detach(), torch.tensor(len(rows)))

    return loss


def learnt(order: int, seen: list[Rows] | None = None) -> tuple[torch.nn.Embedding, list[float]]:
    """A model that has learnt, and the losses."""
    model = model_of()
    told = ProgressLabels(name="learning", unit="row")
    losses = learn_rows(
        model, ROWS, loss_of(model, seen), COURSE, random.Random(order), told, device=torch.device("cpu")
    )
    return model, losses


def by_hand(batches: Sequence[Rows]) -> tuple[torch.nn.Embedding, list[float]]:
    """The same steps, written out."""
    model = model_of()
    optimiser = torch.optim.AdamW(model.parameters(), lr=COURSE.learning_rate, weight_decay=COURSE.weight_decay)
    totals = []
    for share, rows in zip(RATES, batches, strict=True):
        optimiser.param_groups[0]["lr"] = share * COURSE.learning_rate
        found = loss_of(model)(rows)
        optimiser.zero_grad()
        found.mean.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        totals.append(float(found.total))
    return model, [sum(totals[first : first + 3]) / len(ROWS) for first in range(0, 12, 3)]


def test_each_step_is_that_of_adamw_with_a_rate_that_rises_and_falls() -> None:
    seen: list[Rows] = []
    model, losses = learnt(1, seen)
    expected, means = by_hand(seen)
    assert torch.allclose(model.weight, expected.weight, atol=1e-6)
    assert losses == pytest.approx(means, abs=1e-5)


def test_each_row_is_learnt_once_an_epoch() -> None:
    seen: list[Rows] = []
    learnt(1, seen)
    for epoch in range(COURSE.epochs):
        batches = seen[3 * epoch : 3 * epoch + 3]
        assert sorted(row for rows in batches for row in rows) == sorted(ROWS)


def test_another_order_deals_rows_otherwise() -> None:
    seen: dict[int, list[Rows]] = {1: [], 2: []}
    for order, batches in seen.items():
        learnt(order, batches)
    assert seen[1] != seen[2]


def test_what_needs_no_gradient_stays() -> None:
    model = torch.nn.Sequential(model_of(), torch.nn.Linear(2, 2))
    model[0].requires_grad_(False)
    before, after = model[0].weight.clone(), model[1].weight.clone()

    def loss(rows: Rows) -> BatchLoss:
        found = model(torch.tensor(rows)).square().mean()
        return BatchLoss(found, found.detach(), torch.tensor(1))

    told = ProgressLabels(name="learning", unit="row")
    learn_rows(model, ROWS, loss, COURSE, random.Random(0), told, device=torch.device("cpu"))
    assert torch.equal(model[0].weight, before)
    assert not torch.equal(model[1].weight, after)


def test_the_callers_random_state_is_what_it_was() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    model = model_of()
    torch.manual_seed(3)
    told = ProgressLabels(name="learning", unit="row")
    learn_rows(model, ROWS, loss_of(model), COURSE, random.Random(0), told, device=torch.device("cpu"))
    assert torch.equal(torch.rand(1), expected)

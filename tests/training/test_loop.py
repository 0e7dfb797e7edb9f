"""The training loop against the same steps written out, its order of calls, and going on with a run."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch

from leakage_tasks.core.progress import progress
from leakage_tasks.training.loop import BatchLoss, ClippedSteps, EarlyStopping, EpochLosses, TrainingLoop
from leakage_tasks.training.optimizers import schedule

INPUTS = torch.linspace(-1, 1, 12).view(12, 1)
TARGETS = 3 * INPUTS + 1


def fresh() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Dropout(0.3), torch.nn.Linear(4, 1))


def loop(model: Any, epochs: int = 3, **more: Any) -> TrainingLoop[torch.Tensor, float]:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss(rows: torch.Tensor) -> BatchLoss:
        found = torch.nn.functional.mse_loss(model(INPUTS[rows]), TARGETS[rows])
        return BatchLoss(found, found.detach() * len(rows), len(rows))

    return TrainingLoop(
        **{
            "model": model,
            "batches": lambda epoch: torch.arange(12).roll(epoch).split(5),
            "step": partial(ClippedSteps[torch.Tensor](optimiser, 0.5).take, loss),
            "evaluate": lambda epoch, losses: float(losses.total) / losses.count,
            "epochs": epochs,
            "rates": schedule(optimiser, epochs * 3, 0.0),
            **more,
        }
    )


def by_hand(model: Any, epochs: int = 3) -> list[float]:
    optimiser, step, losses = torch.optim.SGD(model.parameters(), lr=0.1), 0, []
    model.train()
    for epoch in range(1, epochs + 1):
        total = 0.0
        for rows in torch.arange(12).roll(epoch).split(5):
            optimiser.param_groups[0]["lr"] = 0.1 * (epochs * 3 - step) / (epochs * 3)
            optimiser.zero_grad()
            loss = torch.nn.functional.mse_loss(model(INPUTS[rows]), TARGETS[rows])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimiser.step()
            total, step = total + loss.item() * len(rows), step + 1
        losses.append(total / 12)
    return losses


def test_it_is_the_steps_one_would_write_by_hand() -> None:
    one, other = fresh(), fresh()
    torch.manual_seed(5)
    losses = loop(one).run(progress(9, "training"))
    torch.manual_seed(5)
    assert losses == pytest.approx(by_hand(other))
    assert all(torch.allclose(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_dropout_is_drawn_from_the_epoch_s_own_stream_and_leaves_the_caller_s_alone() -> None:
    runs = []
    for state in (1, 2):
        model = fresh()
        model.device = torch.device("cpu")
        torch.manual_seed(state)
        runs.append(loop(model, dropout_seed=7).run(progress(9, "training")))
        after = torch.rand(1)
        torch.manual_seed(state)
        assert torch.equal(after, torch.rand(1))
    assert runs[0] == runs[1]


def test_each_epoch_is_evaluated_judged_and_told_in_that_order_until_one_is_the_last() -> None:
    calls: list[tuple[str, int]] = []

    def evaluate(epoch: int, losses: EpochLosses) -> float:
        calls.append(("evaluate", epoch))
        assert losses.count == 12
        return float(epoch)

    def stop(epoch: int, record: float) -> bool:
        calls.append(("stop", epoch))
        return record == 2.0

    def on_epoch(epoch: int, model: Any, records: list[float]) -> None:
        calls.append(("on_epoch", len(records)))

    found = loop(fresh(), epochs=5, evaluate=evaluate, stop=stop, on_epoch=on_epoch).run(progress(15, "training"))
    assert found == [1.0, 2.0]
    assert calls == [(name, epoch) for epoch in (1, 2) for name in ("evaluate", "stop", "on_epoch")]


def test_a_run_with_records_goes_on_after_them(capsys: pytest.CaptureFixture[str]) -> None:
    drawn: list[int] = []

    def batches(epoch: int) -> list[torch.Tensor]:
        drawn.append(epoch)
        return [torch.arange(12)]

    again = loop(fresh(), epochs=4, records=[9.0, 8.0], batches=batches, shown=lambda loss: f"loss {loss:.0f}")
    assert again.run(progress(2, "training"))[:2] == [9.0, 8.0]
    assert drawn == [3, 4]
    assert "epoch 4/4, loss" in capsys.readouterr().err


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

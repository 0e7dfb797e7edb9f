"""The optimizers by name, each against one step written out."""

from __future__ import annotations

import math

import pytest
import torch

from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.optimizers import OPTIMIZERS, make_optimizer

RATE, GRADIENTS = 0.1, (2.0, -1.0)


def moved(name: str, weight_decay: float = 0.0, start: float = 3.0) -> float:
    """Where a parameter is after a step for each of the gradients."""
    parameter = torch.nn.Parameter(torch.tensor([start], dtype=torch.float64))
    optimizer = make_optimizer(name, [parameter], RATE, weight_decay)
    for gradient in GRADIENTS:
        parameter.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
    return parameter.item()


def adadelta() -> float:
    square = change = total = 0.0
    for gradient in GRADIENTS:
        square = 0.9 * square + 0.1 * gradient**2
        step = math.sqrt(change + 1e-6) / math.sqrt(square + 1e-6) * gradient
        change = 0.9 * change + 0.1 * step**2
        total += step
    return total


FIRST, SECOND = GRADIENTS
STEPS = {
    "sgd": FIRST + SECOND,
    "momentum": FIRST + (0.9 * FIRST + SECOND),
    "rmsprop": FIRST / math.sqrt(0.1 * FIRST**2) + SECOND / math.sqrt(0.09 * FIRST**2 + 0.1 * SECOND**2),
    "adagrad": FIRST / abs(FIRST) + SECOND / math.sqrt(FIRST**2 + SECOND**2),
    "adadelta": adadelta(),
    "adam": FIRST / abs(FIRST)
    + ((0.09 * FIRST + 0.1 * SECOND) / 0.19) / math.sqrt((0.999e-3 * FIRST**2 + 1e-3 * SECOND**2) / (1 - 0.999**2)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_the_published_rule(name):
    assert moved(name) == pytest.approx(3.0 - RATE * STEPS[name], abs=1e-6)


def test_weight_decay_is_an_l2_penalty():
    start, path = 3.0, 3.0
    for gradient in GRADIENTS:
        path -= RATE * (gradient + 0.5 * path)
    assert moved("sgd", 0.5, start) == pytest.approx(path)


def test_without_a_learning_rate_each_has_its_own():
    parameter = torch.nn.Parameter(torch.zeros(1))
    for name, kind in OPTIMIZERS.items():
        assert make_optimizer(name, [parameter]).param_groups[0]["lr"] == kind.learning_rate


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("adamw", (), "optimizer is 'adamw': give one of sgd"),
        ("adam", (-1.0,), "learning_rate is -1.0"),
        ("adam", (None, -0.1), "weight_decay is -0.1"),
    ],
)
def test_what_cannot_be_is_refused(name, settings, words):
    with pytest.raises(OptionError, match=words):
        make_optimizer(name, [torch.nn.Parameter(torch.zeros(1))], *settings)

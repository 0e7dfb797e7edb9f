"""The six optimizers of The Secret Sharer, Section 6.3, by name, and the learning rate schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR

from leakage_tasks.core.errors import OptionError


@dataclass(frozen=True)
class Optimizer:
    """PyTorch's class of an optimizer, its default learning rate and other arguments."""

    kind: type[torch.optim.Optimizer]
    learning_rate: float
    settings: Mapping[str, Any] = field(default_factory=dict)


OPTIMIZERS: Mapping[str, Optimizer] = {
    "sgd": Optimizer(torch.optim.SGD, 2.0),
    "momentum": Optimizer(torch.optim.SGD, 0.2, {"momentum": 0.9}),
    "rmsprop": Optimizer(torch.optim.RMSprop, 1e-3, {"alpha": 0.9}),
    "adagrad": Optimizer(torch.optim.Adagrad, 1e-2),
    "adadelta": Optimizer(torch.optim.Adadelta, 1.0, {"rho": 0.9}),
    "adam": Optimizer(torch.optim.Adam, 1e-3),
}
"""RMSprop's rate is the paper's (Table 8); Adadelta's rate of 1 does not scale its steps. The other rates suit the
2×200 LSTM and the other networks with gradients clipped to a norm of 1; for SGD on a transformer 0.3 is better."""


def make_optimizer(
    name: str, parameters: Iterable[torch.nn.Parameter], learning_rate: float | None = None, weight_decay: float = 0.0
) -> torch.optim.Optimizer:
    """Create an optimizer.

    Args:
        name: A key of :data:`OPTIMIZERS`.
        parameters: The parameters to train.
        learning_rate: By default the optimizer's usual rate.
        weight_decay: Factor of an L2 penalty, which is part of the gradient (not decoupled).

    Returns:
        The optimizer.

    Raises:
        OptionError: The name is unknown, or a number is negative.
    """
    entry = OPTIMIZERS.get(name)
    if entry is None:
        raise OptionError(f"optimizer is {name!r}: give one of {', '.join(OPTIMIZERS)}")
    rate = entry.learning_rate if learning_rate is None else learning_rate
    for setting, value in (("learning_rate", rate), ("weight_decay", weight_decay)):
        if not value >= 0:
            raise OptionError(f"{setting} is {value}: give 0 or more")
    kind: Any = entry.kind
    optimizer: torch.optim.Optimizer = kind(parameters, lr=rate, weight_decay=weight_decay, **entry.settings)
    return optimizer


def schedule(optimiser: torch.optim.Optimizer, steps: int, decay_from: float) -> LambdaLR:
    """Return a schedule that is constant for the share ``decay_from`` of ``steps``, then decays linearly to 0."""
    falling = max((1 - decay_from) * steps, 1)
    return LambdaLR(optimiser, lambda step: min(1.0, (steps - step) / falling))


def check_share(decay_from: float) -> None:
    """Raise OptionError if ``decay_from`` is not between 0 and 1."""
    if not 0 <= decay_from <= 1:
        raise OptionError(f"decay_from is {decay_from}: give a share of training from 0 to 1")

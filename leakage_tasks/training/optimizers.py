"""The six optimizers of The Secret Sharer, Section 6.3, by name, and the learning rate's course."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR

from leakage_tasks.core.errors import OptionError


@dataclass(frozen=True)
class Optimizer:
    """PyTorch's class, the learning rate to use where none is asked for, and its other settings."""

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
"""RMSprop's rate is the paper's (Table 8), Adadelta's leaves its own steps as they are. The others teach the 2×200 LSTM
well with gradients clipped to a norm of 1, and the other networks too; for SGD on a transformer 0.3 is better."""


def make_optimizer(
    name: str, parameters: Iterable[torch.nn.Parameter], learning_rate: float | None = None, weight_decay: float = 0.0
) -> torch.optim.Optimizer:
    """The optimizer called ``name``; ``weight_decay`` is an L2 penalty, part of the gradient (so not decoupled).

    Raises OptionError on an unknown name, a negative learning rate or weight decay.
    """
    found = OPTIMIZERS.get(name)
    if found is None:
        raise OptionError(f"optimizer is {name!r}: give one of {', '.join(OPTIMIZERS)}")
    rate = found.learning_rate if learning_rate is None else learning_rate
    for setting, value in (("learning_rate", rate), ("weight_decay", weight_decay)):
        if not value >= 0:
            raise OptionError(f"{setting} is {value}: give 0 or more")
    kind: Any = found.kind
    made: torch.optim.Optimizer = kind(parameters, lr=rate, weight_decay=weight_decay, **found.settings)
    return made


def schedule(optimiser: torch.optim.Optimizer, steps: int, decay_from: float) -> LambdaLR:
    """A learning rate that is constant up to the share ``decay_from`` of ``steps``, then falls linearly to nothing."""
    falling = max((1 - decay_from) * steps, 1)
    return LambdaLR(optimiser, lambda step: min(1.0, (steps - step) / falling))


def check_share(decay_from: float) -> None:
    """Raise OptionError unless ``decay_from`` is a share."""
    if not 0 <= decay_from <= 1:
        raise OptionError(f"decay_from is {decay_from}: give a share of training from 0 to 1")

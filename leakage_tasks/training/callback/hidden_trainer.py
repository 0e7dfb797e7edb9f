"""Attachment of the callback to a trainer that another program creates, such as LLaMA-Factory's ``run_exp``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from transformers import Trainer

from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.callback.callback import ExposureCallback


@contextmanager
def attached_when_training(callback: ExposureCallback) -> Iterator[ExposureCallback]:
    """Attach ``callback`` to the first trainer that trains inside the ``with`` block, before its first step.

    Programs that pass ``callbacks=[…]`` to a trainer do not pass the trainer to the callbacks. ``Trainer.train`` is
    wrapped inside the block and restored afterwards.

    Args:
        callback: The callback to attach.

    Yields:
        The callback.

    Raises:
        OptionError: The block ends without an error although no ``transformers.Trainer`` has trained in it.

    Examples:
        >>> from leakage_tasks.training.callback.hidden_trainer import attached_when_training
        >>> with attached_when_training(ExposureCallback("canaries.jsonl")) as callback:
        ...     run_exp(arguments)
    """
    hooked: Any = Trainer
    original = hooked.train
    trained: list[Trainer] = []

    @wraps(original)
    def train(trainer: Trainer, *args: Any, **kwargs: Any) -> Any:
        if not trained:
            trained.append(trainer)
            callback.attach(trainer)
        return original(trainer, *args, **kwargs)

    hooked.train = train
    try:
        yield callback
    finally:
        hooked.train = original
    if not trained:
        raise OptionError(
            "ExposureCallback: no transformers.Trainer trained inside the block: put the call that trains into it"
        )

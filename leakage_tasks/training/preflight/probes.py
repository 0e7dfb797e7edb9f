"""Probes of the model: gradients of a secret's loss at trained weights, and attention between packed examples."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from leakage_tasks.training.sharding import weights_of
from leakage_tasks.training.text_batches import IGNORED

TEXTS = frozenset({"input_ids", "attention_mask", "position_ids", "token_type_ids"})
"""Inputs with one row per text."""


def trained_share(model: Any) -> float:
    """Return the share of the model's weights that training changes."""
    sizes = [(weights_of(parameter), parameter.requires_grad) for parameter in model.parameters()]
    return sum(size for size, trained in sizes if trained) / max(1, sum(size for size, _ in sizes))


def gradient_reaches(model: Any, batch: Mapping[str, Any], row: int, counted: np.ndarray) -> bool:
    """Return True if the loss of some tokens has a non-zero gradient at a trained weight.

    Gradients stored in the weights do not change.

    Args:
        model: The model.
        batch: A collated batch.
        row: Index of a row of the batch.
        counted: Boolean, ``[length]``: the tokens of the row.

    Returns:
        True if there is a gradient.
    """
    inputs, row = _one_row(_inputs(model, batch), row)
    labels = torch.full_like(inputs["input_ids"], IGNORED)
    chosen = torch.as_tensor(counted, device=labels.device)
    labels[row][chosen] = inputs["input_ids"][row][chosen]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        return False
    with torch.enable_grad():
        loss = model(**inputs, labels=labels).loss
        if not loss.requires_grad:
            return False
        # The last weights are next to the loss, so their gradients usually answer without a whole backward pass.
        return _any_gradient(loss, trained[-1:], keep=True) or _any_gradient(loss, trained)


def _any_gradient(loss: torch.Tensor, weights: Sequence[Any], keep: bool = False) -> bool:
    """Return True if ``loss`` has a non-zero gradient at one of ``weights``; ``keep`` allows a second call."""
    gradients = torch.autograd.grad(loss, weights, retain_graph=keep, allow_unused=True)
    return any(gradient is not None and bool(torch.any(gradient != 0)) for gradient in gradients)


def packed_read_each_other(model: Any, batch: Mapping[str, Any]) -> bool | None:
    """Return True if the logits of a packed row's second example depend on its first example; None if not packed.

    The test changes the first example, since the result depends on the model's attention, its version and its kernels.
    """
    starts = example_starts(batch)
    if len(starts) < 2:
        return None
    inputs = _inputs(model, batch)
    changed = inputs["input_ids"].clone()
    first = slice(0, starts[1])
    changed[0, first] = changed[0, first].roll(1) if len(set(changed[0, first].tolist())) > 1 else 0
    with torch.no_grad():
        usual = model(**inputs).logits[0, starts[1] :]
        other = model(**{**inputs, "input_ids": changed}).logits[0, starts[1] :]
    return bool((usual - other).abs().max() > 1e-3 * usual.abs().max())


def example_starts(batch: Mapping[str, Any]) -> list[int]:
    """Return the positions at which examples packed into a batch's first row begin; empty if unknown."""
    positions = batch.get("position_ids")
    starts = [] if positions is None else (positions[0] == 0).nonzero().flatten().tolist()
    return starts if starts[:1] == [0] else []


def _one_row(inputs: dict[str, Any], row: int) -> tuple[dict[str, Any], int]:
    """Return the inputs of one row and its index in them. If inputs are not one row per text, keep the whole batch."""
    count = len(inputs["input_ids"])
    if not inputs.keys() <= TEXTS or any(len(value) != count for value in inputs.values()):
        return inputs, row
    return {name: value[row : row + 1] for name, value in inputs.items()}, 0


def _inputs(model: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
    device = next(model.parameters()).device
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    # The signature of the class, because trainers replace the forward method of a model object.
    accepted = set(inspect.signature(type(base).forward).parameters) - {"labels"}
    return {name: value.to(device) for name, value in batch.items() if name in accepted and hasattr(value, "to")}

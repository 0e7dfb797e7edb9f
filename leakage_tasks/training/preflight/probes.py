"""Questions to the model: does a secret's loss reach a weight that is trained, do packed examples read each other?"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from leakage_tasks.training.text_batches import IGNORED

TEXTS = frozenset({"input_ids", "attention_mask", "position_ids", "token_type_ids"})
"""Inputs of which each row is one text's alone."""


def trained_share(model: Any) -> float:
    """Share of the model's weights that training changes."""
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    return sum(size for size, trained in sizes if trained) / max(1, sum(size for size, _ in sizes))


def gradient_reaches(model: Any, batch: Mapping[str, Any], row: int, counted: np.ndarray) -> bool:
    """Whether the loss of some tokens has a gradient at any weight that is trained; gradients are left as they were.

    ``counted`` (``[length]``) says which tokens of ``row`` of the batch.
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
        found = torch.autograd.grad(loss, trained, allow_unused=True)
    return any(each is not None and bool(torch.any(each != 0)) for each in found)


def packed_read_each_other(model: Any, batch: Mapping[str, Any]) -> bool | None:
    """Whether what the model says of a packed row's second example depends on its first; None for other batches.

    Told by changing the first and looking, since it depends on the model's attention, its version and its kernels.
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
    """Where the examples packed into a batch's first row begin; empty where it does not say."""
    places = batch.get("position_ids")
    starts = [] if places is None else (places[0] == 0).nonzero().flatten().tolist()
    return starts if starts[:1] == [0] else []


def _one_row(inputs: dict[str, Any], row: int) -> tuple[dict[str, Any], int]:
    """Inputs of one row of a batch and its place in them: by itself where they are texts, else in company."""
    count = len(inputs["input_ids"])
    if not inputs.keys() <= TEXTS or any(len(value) != count for value in inputs.values()):
        return inputs, row
    return {name: value[row : row + 1] for name, value in inputs.items()}, 0


def _inputs(model: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
    """What of a batch the model takes, on its device."""
    device = next(model.parameters()).device
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    # The class' own: trainers put functions of their own in the place of a model's.
    taken = set(inspect.signature(type(base).forward).parameters) - {"labels"}
    return {name: value.to(device) for name, value in batch.items() if name in taken and hasattr(value, "to")}

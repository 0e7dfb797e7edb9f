"""Ids that a model shares among all rows, repeated for each, as gradients a row need them."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.hooks import RemovableHandle


def per_row_ids(model: torch.nn.Module) -> list[RemovableHandle]:
    """Hooks that repeat ids shared by all rows for each row, as long as they are there.

    BERT looks position embeddings up once, [1, length], for the whole batch; opacus takes the first dimension for the
    rows, so that a gradient a row needs them [rows, length].
    """
    seen = {"rows": 1}

    def note(_: torch.nn.Module, given: tuple[Any, ...], inputs: dict[str, Any]) -> None:
        seen["rows"] = len(given[0] if given else inputs["input_ids"])

    def repeat(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...] | None:
        shared = inputs[0].dim() == 2 and len(inputs[0]) == 1
        return (inputs[0].expand(seen["rows"], -1),) if shared else None

    embeddings = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    return [
        model.register_forward_pre_hook(note, with_kwargs=True),
        *(embedding.register_forward_pre_hook(repeat) for embedding in embeddings),
    ]

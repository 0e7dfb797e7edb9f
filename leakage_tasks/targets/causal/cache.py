"""Cache objects of transformers' models, taken apart into tensors with a batch dimension and put together again."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from leakage_tasks.models.states import LayersFirst


def bytes_of(tensors: Sequence[Tensor]) -> int:
    """Return the memory size of tensors in bytes."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def batch_dim(cache: Any) -> int:
    """Return the dimension of a cache's tensors that counts the rows."""
    return int(isinstance(cache, LayersFirst))


def attention_only(cache: Any) -> bool:
    """Return True if a cache holds keys and values of full attention and nothing else."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    layers = cache.layers if type(cache) is DynamicCache else []
    return len(layers) > 0 and all(type(layer) is DynamicLayer and layer.keys is not None for layer in layers)


def hollow(cache: Any) -> Any:
    """Return a copy of a cache with its batched tensors empty, so that it keeps no rows of other texts in memory."""
    return _map_tensors(cache, lambda tensor: tensor.new_empty(0))


def filled(shell: Any, tensors: Sequence[Tensor]) -> Any:
    """Return a copy of a :func:`hollow` cache that holds ``tensors``."""
    left = iter(tensors)
    return _map_tensors(shell, lambda _: next(left))


def tensors_of(cache: Any) -> list[Tensor]:
    """Return every tensor with a batch dimension in a cache, in a fixed order."""
    tensors: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    _map_tensors(cache, note)
    return tensors


def form_of(cache: Any) -> Hashable:
    """Return a key of the shapes and types of a row and of all other values; rows of equal form can be one batch."""
    plain: list[Hashable] = []
    tensors: list[Hashable] = []
    dim = batch_dim(cache)

    def note(tensor: Tensor) -> Tensor:
        tensors.append((tensor.shape[:dim] + tensor.shape[dim + 1 :], tensor.dtype, tensor.device))
        return tensor

    _map_tensors(cache, note, plain.append)
    return tuple(tensors), tuple(plain)


def _map_tensors(node: Any, change: Callable[[Tensor], Tensor], note: Callable[[Hashable], None] | None = None) -> Any:
    """Return a copy of a cache with ``change`` applied to each tensor that has a batch dimension.

    ``note`` is called with each number, boolean and string, and with the value of each tensor without a batch
    dimension.
    """
    if isinstance(node, Tensor) and node.dim():
        return change(node)
    if isinstance(node, (list, tuple)):
        return type(node)([_map_tensors(item, change, note) for item in node])
    if isinstance(node, dict):
        return type(node)({name: _map_tensors(item, change, note) for name, item in node.items()})
    if _holds_tensors(node):
        twin = copy.copy(node)
        for name, item in vars(node).items():
            setattr(twin, name, _map_tensors(item, change, note))
        return twin
    if note is not None and isinstance(node, int | float | str | Tensor):
        note(node.item() if isinstance(node, Tensor) else node)
    return node


def _holds_tensors(node: Any) -> bool:
    """Return True for cache objects and their layers, False for the model's config and modules."""
    return (
        type(node).__module__.partition(".")[0] in ("transformers", "leakage_tasks")
        and hasattr(node, "__dict__")
        and not isinstance(node, torch.nn.Module)
    )

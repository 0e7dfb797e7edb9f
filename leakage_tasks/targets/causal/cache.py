"""What a causal model remembers of a batch of texts, with rows to pick and put together.

Attention caches keep the shared prefix once and store per row only what came after it; anything else
(recurrent, convolutional, sliding-window state) is stored whole, one row a text.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor


@dataclass
class RowState:
    """State of ``rows`` texts of equal length.

    ``tensors`` have the batch as their first dimension. ``prefix`` is the one-row cache of the shared prefix
    whose ``length`` tokens are left out of ``tensors`` (attention caches), or None (all else).
    """

    shell: Any
    tensors: list[Tensor]
    prefix: list[Tensor] | None = None
    length: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes held per row tensors (the prefix is shared and not counted)."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors)

    def rebuild(self) -> Any:
        """The cache object a forward pass takes, a fresh one each time."""
        tensors = self.tensors
        if self.prefix is not None:
            rows = len(tensors[0])
            tensors = [
                torch.cat([shared.expand(rows, *shared.shape[1:]), own], dim=-2)
                for shared, own in zip(self.prefix, tensors, strict=True)
            ]
        left = iter(tensors)
        return _map_tensors(self.shell, lambda _: next(left))


def of_prefix(cache: Any) -> RowState:
    """State of the shared prefix itself, one row, from what the model returned for it."""
    tensors = _collect(cache)
    if not attention_only(cache):
        return RowState(cache, tensors)
    length = tensors[0].shape[-2]
    return RowState(cache, [tensor[..., length:, :] for tensor in tensors], tensors, length)


def of_rows(cache: Any) -> RowState:
    """State of a batch of texts without a shared prefix, from what the model returned for them."""
    return RowState(cache, _collect(cache))


def after(previous: RowState, cache: Any) -> RowState:
    """State after a forward pass that continued ``previous``."""
    tensors = _collect(cache)
    if previous.prefix is not None:
        tensors = [tensor[..., previous.length :, :].clone() for tensor in tensors]
    return RowState(cache if previous.prefix is None else previous.shell, tensors, previous.prefix, previous.length)


def pick(states: Sequence[RowState], which: Tensor, rows: Tensor) -> RowState:
    """The state whose row i is row ``rows[i]`` of ``states[which[i]]``."""
    used = which.unique().tolist()
    first = states[used[0]]
    if len(used) == 1:
        return replace(first, tensors=[tensor.index_select(0, rows.to(tensor.device)) for tensor in first.tensors])
    order = torch.argsort(which, stable=True)
    back = torch.argsort(order)
    parts = [[tensor.index_select(0, rows[which == n].to(tensor.device)) for tensor in states[n].tensors] for n in used]
    joined = [torch.cat(column).index_select(0, back.to(column[0].device)) for column in zip(*parts, strict=True)]
    return replace(first, tensors=joined)


def attention_only(cache: Any) -> bool:
    """Whether a cache is keys and values of full attention, and nothing else."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    layers = cache.layers if type(cache) is DynamicCache else []
    return len(layers) > 0 and all(type(layer) is DynamicLayer and layer.keys is not None for layer in layers)


def _collect(cache: Any) -> list[Tensor]:
    """Every tensor with a batch dimension in a cache, in a fixed order."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    _map_tensors(cache, note)
    return found


def _map_tensors(node: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A copy of a cache with each of its tensors that has a batch dimension changed."""
    if isinstance(node, Tensor):
        return change(node) if node.dim() else node
    if isinstance(node, (list, tuple)):
        return type(node)([_map_tensors(item, change) for item in node])
    if isinstance(node, dict):
        return type(node)({name: _map_tensors(item, change) for name, item in node.items()})
    if _holds_tensors(node):
        twin = copy.copy(node)
        for name, item in vars(node).items():
            setattr(twin, name, _map_tensors(item, change))
        return twin
    return node


def _holds_tensors(node: Any) -> bool:
    """Cache objects and their layers; not the model's own config or modules."""
    return (
        type(node).__module__.partition(".")[0] in ("transformers", "leakage_tasks")
        and hasattr(node, "__dict__")
        and not isinstance(node, torch.nn.Module)
    )

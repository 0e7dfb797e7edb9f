"""The cached state of a batch of texts.

For attention models the KV cache of the shared prefix is stored once, and each row stores only its later tokens. Any
other state (recurrent, convolutional, or a cache that drops old tokens) is stored in full for each text.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

First = tuple[list[Any], list[Tensor], Tensor]
"""The states of n texts, the costs in bits of each text's tokens after the first, and the last logits ``[n, V]``."""


def bytes_of(tensors: Sequence[Tensor]) -> int:
    """Return the memory size of tensors in bytes."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@dataclass(frozen=True, eq=False)
class SharedLead:
    """The common prefix of many prefixes: its KV cache ``[1, H, length, D]``, stored once for all of them."""

    tensors: list[Tensor]
    length: int

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return bytes_of(self.tensors)


@dataclass
class RowState:
    """Cached state of ``rows`` texts of equal length.

    ``shell`` is the model's cache object with empty tensors (:func:`hollow`); the first dimension of ``tensors`` is the
    batch. ``prefix`` is the one-row KV cache of the shared prefix, whose ``length`` tokens are not in ``tensors``; it
    is None for any other kind of state. ``read`` is the number of tokens of each text, and ``source`` an additional
    input of all of them (a translation model's source sentence) or None. If the prefix begins with a shared context,
    ``lead`` holds that, and ``prefix`` only the rest.
    """

    shell: Any
    tensors: Sequence[Tensor]
    prefix: list[Tensor] | None = None
    length: int = 0
    read: int = 0
    source: Any = None
    lead: SharedLead | None = None

    @property
    def own_length(self) -> int:
        """Number of prefix tokens after the shared context."""
        return self.length - (self.lead.length if self.lead else 0)

    @property
    def prefix_bytes(self) -> int:
        """Memory of the shared prefix in bytes, without the shared context."""
        return bytes_of(self.prefix or [])

    @property
    def copy_bytes(self) -> int:
        """Memory in bytes of one copy of the shared prefix, including the shared context."""
        return self.prefix_bytes + (self.lead.nbytes if self.lead else 0)

    @property
    def nbytes(self) -> int:
        """Memory of the per-row tensors in bytes; the shared prefix is not counted."""
        return bytes_of(self.tensors)

    def rebuild(self) -> Any:
        """Return a new cache object for a forward pass."""
        return self.filled(self.whole())

    def whole(self) -> Sequence[Tensor]:
        """Return the tensors with the shared prefix copied into each row."""
        if self.prefix is None:
            return self.tensors
        rows = len(self.tensors[0])
        return [
            torch.cat([shared.expand(rows, *shared.shape[1:]), tensor], dim=-2)
            for shared, tensor in zip(self.whole_prefix(), self.tensors, strict=True)
        ]

    def whole_prefix(self) -> list[Tensor]:
        """Return the prefix including the shared context."""
        assert self.prefix is not None
        if self.lead is None:
            return self.prefix
        return [torch.cat(parts, dim=-2) for parts in zip(self.lead.tensors, self.prefix, strict=True)]

    def filled(self, tensors: Sequence[Tensor]) -> Any:
        """Return a copy of this state's cache object that holds ``tensors``."""
        left = iter(tensors)
        return _map_tensors(self.shell, lambda _: next(left))


@dataclass(frozen=True)
class Beginning:
    """A prefix after it was read: its tokens, state, costs after the first token, and last logits ``[1, V]``."""

    tokens: tuple[int, ...]
    state: RowState
    costs: Tensor
    logits: Tensor


def of_prefixes(cache: Any, reads: Sequence[int], sources: Sequence[Any] = (None,)) -> list[RowState]:
    """Return one state per prefix from the cache of a batch of prefixes with ``reads`` tokens each.

    ``sources`` holds the additional input of each prefix, or a single one for all. Shorter prefixes are padded on the
    right. Raises ValueError if the state of a padded prefix cannot be separated from its padding.
    """
    columns = [tensor.split(1) for tensor in tensors_of(cache)]
    rows = [[column[row] for column in columns] for row in range(len(columns[0]))]
    rows_read = zip(rows, reads, [*sources] * (len(rows) // len(sources)), strict=True)
    shell = hollow(cache)
    if not attention_only(cache):
        if len(set(reads)) > 1:
            raise ValueError("a state of more than attention")
        return [RowState(shell, _own(row, len(rows)), read=read, source=source) for row, read, source in rows_read]
    states, longest = [], max(reads)
    for row, read, source in rows_read:
        length = row[0].shape[-2] - (longest - read)
        prefix = _own([tensor[..., :length, :] for tensor in row], len(rows))
        states.append(RowState(shell, [tensor[..., length:, :] for tensor in prefix], prefix, length, read, source))
    return states


def _own(tensors: list[Tensor], rows: int) -> list[Tensor]:
    """Copy one of several rows, so that the memory of the others can be freed."""
    return [tensor.clone() for tensor in tensors] if rows > 1 else tensors


def of_rows(cache: Any) -> RowState:
    """Return the state of a batch of texts without a shared prefix, from the model's cache."""
    return RowState(hollow(cache), tensors_of(cache))


def after(previous: RowState, cache: Any) -> RowState:
    """Return the state after a forward pass that continued ``previous``."""
    tensors = tensors_of(cache)
    if previous.prefix is not None:
        tensors = [tensor[..., previous.length :, :].clone() for tensor in tensors]
    state = replace(previous, tensors=tensors, read=previous.read + 1)
    if previous.prefix is None:
        state.shell = hollow(cache)
    return state


def join(states: Sequence[RowState]) -> RowState:
    """Concatenate the rows of states that have equal shapes."""
    if len(states) == 1:
        return states[0]
    columns = zip(*(state.tensors for state in states), strict=True)
    return replace(states[0], tensors=[torch.cat(column) for column in columns])


def likeness(state: RowState) -> Hashable:
    """Return a key of shapes and non-tensor values; states without a prefix that have equal keys can be one batch."""
    plain: list[Hashable] = []
    _map_tensors(state.shell, lambda tensor: tensor, plain.append)
    return tuple(tensor.shape[1:] for tensor in state.tensors), tuple(plain)


def looked_at(sources: Sequence[Any], counts: Sequence[int]) -> dict[str, Any]:
    """Return the forward pass's arguments for additional inputs, with the number of rows of each."""
    return {} if sources[0] is None else {"sources": list(zip(sources, counts, strict=True))}


def attention_only(cache: Any) -> bool:
    """Return True if a cache holds keys and values of full attention and nothing else."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    layers = cache.layers if type(cache) is DynamicCache else []
    return len(layers) > 0 and all(type(layer) is DynamicLayer and layer.keys is not None for layer in layers)


def hollow(cache: Any) -> Any:
    """Return a copy of a cache with its batched tensors empty, so that it keeps no rows of other texts in memory."""
    return _map_tensors(cache, lambda tensor: tensor.new_empty(0))


def tensors_of(cache: Any) -> list[Tensor]:
    """Return every tensor with a batch dimension in a cache, in a fixed order."""
    tensors: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    _map_tensors(cache, note)
    return tensors


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

"""What a causal model remembers of a batch of texts.

Attention caches keep the shared prefix once and store per row only what came after it; anything else (recurrent or
convolutional state, a cache that forgets) is stored whole, one row a text.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

First = tuple[list[Any], list[Tensor], Tensor]
"""A state of each of n texts, their costs in bits after the first token, and logits after the last ``[n, V]``."""


def bytes_of(tensors: Sequence[Tensor]) -> int:
    """Bytes of memory that tensors take."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@dataclass(frozen=True, eq=False)
class SharedLead:
    """What the prefixes of many texts begin with: keys and values ``[1, H, length, D]``, held once for all of them."""

    tensors: list[Tensor]
    length: int

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return bytes_of(self.tensors)


@dataclass
class RowState:
    """State of ``rows`` texts of equal length.

    ``shell`` is the model's cache object without what was in it (:func:`hollow`), ``tensors`` have the batch as their
    first dimension. ``prefix`` is the one-row cache of the shared prefix whose ``length`` tokens are left out of
    ``tensors`` (attention caches), or None (all else). ``read`` says of how many tokens a text is, ``source`` what all
    of them look at besides (a translation model's source sentence), or None. Where the prefix begins with a ``lead``,
    ``prefix`` has what comes after it.
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
        """Tokens of the prefix after its lead."""
        return self.length - (self.lead.length if self.lead else 0)

    @property
    def prefix_bytes(self) -> int:
        """Bytes held of the shared prefix, without the lead."""
        return bytes_of(self.prefix or [])

    @property
    def copy_bytes(self) -> int:
        """Bytes of a copy of the shared prefix, its lead included."""
        return self.prefix_bytes + (self.lead.nbytes if self.lead else 0)

    @property
    def nbytes(self) -> int:
        """Bytes held per row tensors (the prefix is shared and not counted)."""
        return bytes_of(self.tensors)

    def rebuild(self) -> Any:
        """The cache object a forward pass takes, a fresh one each time."""
        return self.filled(self.whole())

    def whole(self) -> Sequence[Tensor]:
        """The tensors with the shared prefix in each row."""
        if self.prefix is None:
            return self.tensors
        rows = len(self.tensors[0])
        return [
            torch.cat([shared.expand(rows, *shared.shape[1:]), tensor], dim=-2)
            for shared, tensor in zip(self.whole_prefix(), self.tensors, strict=True)
        ]

    def whole_prefix(self) -> list[Tensor]:
        """The prefix with its lead."""
        assert self.prefix is not None
        if self.lead is None:
            return self.prefix
        return [torch.cat(parts, dim=-2) for parts in zip(self.lead.tensors, self.prefix, strict=True)]

    def filled(self, tensors: Sequence[Tensor]) -> Any:
        """A cache object like the state's that holds ``tensors``."""
        left = iter(tensors)
        return _map_tensors(self.shell, lambda _: next(left))


@dataclass(frozen=True)
class Beginning:
    """What texts begin with, once it is read: its tokens, state, their costs after the first, and logits ``[1, V]``."""

    tokens: tuple[int, ...]
    state: RowState
    costs: Tensor
    logits: Tensor


def of_prefixes(cache: Any, reads: Sequence[int], sources: Sequence[Any] = (None,)) -> list[RowState]:
    """The state of each of several prefixes of ``reads`` tokens, one row each, from what the model returned for them.

    ``sources`` are what each looks at besides, or the one thing that all do. Shorter prefixes were padded on the right;
    raises ValueError where their state cannot be told from the padding's.
    """
    columns = [tensor.split(1) for tensor in tensors_of(cache)]
    rows = [[column[row] for column in columns] for row in range(len(columns[0]))]
    each = zip(rows, reads, [*sources] * (len(rows) // len(sources)), strict=True)
    shell = hollow(cache)
    if not attention_only(cache):
        if len(set(reads)) > 1:
            raise ValueError("a state of more than attention")
        return [RowState(shell, _own(row, len(rows)), read=read, source=source) for row, read, source in each]
    found, longest = [], max(reads)
    for row, read, source in each:
        length = row[0].shape[-2] - (longest - read)
        prefix = _own([tensor[..., :length, :] for tensor in row], len(rows))
        found.append(RowState(shell, [tensor[..., length:, :] for tensor in prefix], prefix, length, read, source))
    return found


def _own(tensors: list[Tensor], rows: int) -> list[Tensor]:
    """One of several rows in memory of its own: the others' is free once they are done."""
    return [tensor.clone() for tensor in tensors] if rows > 1 else tensors


def of_rows(cache: Any) -> RowState:
    """State of a batch of texts without a shared prefix, from what the model returned for them."""
    return RowState(hollow(cache), tensors_of(cache))


def after(previous: RowState, cache: Any) -> RowState:
    """State after a forward pass that continued ``previous``."""
    tensors = tensors_of(cache)
    if previous.prefix is not None:
        tensors = [tensor[..., previous.length :, :].clone() for tensor in tensors]
    found = replace(previous, tensors=tensors, read=previous.read + 1)
    if previous.prefix is None:
        found.shell = hollow(cache)
    return found


def join(states: Sequence[RowState]) -> RowState:
    """The rows of states that are alike, one after the other."""
    if len(states) == 1:
        return states[0]
    columns = zip(*(state.tensors for state in states), strict=True)
    return replace(states[0], tensors=[torch.cat(column) for column in columns])


def likeness(state: RowState) -> Hashable:
    """What is equal in states without a prefix whose rows may be one batch: shapes, and all that is no tensor."""
    plain: list[Hashable] = []
    _map_tensors(state.shell, lambda tensor: tensor, plain.append)
    return tuple(tensor.shape[1:] for tensor in state.tensors), tuple(plain)


def looked_at(sources: Sequence[Any], counts: Sequence[int]) -> dict[str, Any]:
    """What a forward pass is told of what its rows look at besides, so many rows at each of ``sources``."""
    return {} if sources[0] is None else {"sources": list(zip(sources, counts, strict=True))}


def attention_only(cache: Any) -> bool:
    """Whether a cache is keys and values of full attention, and nothing else."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    layers = cache.layers if type(cache) is DynamicCache else []
    return len(layers) > 0 and all(type(layer) is DynamicLayer and layer.keys is not None for layer in layers)


def hollow(cache: Any) -> Any:
    """A copy of a cache with its tensors of a batch dimension empty: a state made of it holds no other texts' rows."""
    return _map_tensors(cache, lambda tensor: tensor.new_empty(0))


def tensors_of(cache: Any) -> list[Tensor]:
    """Every tensor with a batch dimension in a cache, in a fixed order."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    _map_tensors(cache, note)
    return found


def _map_tensors(node: Any, change: Callable[[Tensor], Tensor], note: Callable[[Hashable], None] | None = None) -> Any:
    """A copy of a cache with each of its tensors that has a batch dimension changed.

    ``note`` is given what is a number, a truth value or text, and tensors without a batch dimension as numbers.
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
    """Cache objects and their layers; not the model's own config or modules."""
    return (
        type(node).__module__.partition(".")[0] in ("transformers", "leakage_tasks")
        and hasattr(node, "__dict__")
        and not isinstance(node, torch.nn.Module)
    )

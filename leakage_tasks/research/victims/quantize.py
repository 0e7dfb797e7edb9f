"""Weights forced to few different values, in place: what a model keeps of its training in 8 bits a weight."""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leakage_tasks.core.errors import LeakageError, OptionError

LEVELS = 256
"""Appendix D.3: each weight one of 256 values, so that 8 bits tell which."""
_MOST = 1 << 16
_AT_ONCE = 1 << 22
"""Weights rounded at once, in float64."""


@dataclass(frozen=True)
class Rounding:
    """What rounding did to the tensors of one kind."""

    kind: str
    """Such as ``LSTM.weight_hh``."""
    tensors: int
    """How many."""
    weights: int
    """In all of them."""
    worst: float
    """The most that a weight was moved by."""
    step: float
    """The widest distance between neighbouring values among the tensors."""
    mean: float
    """Of the absolute differences that weights were moved by."""


@dataclass(frozen=True)
class Quantized:
    """What :func:`quantize` did, and what the weights take."""

    levels: int
    """Different values that a tensor's weights may have."""
    bits: int
    """They tell the levels apart."""
    rounding: list[Rounding]
    """One a kind of tensor."""
    stored_bytes: int
    """As saved."""
    packed_bytes: int
    """The levels' numbers, at ``bits`` each."""
    zlib_bytes: int
    """What zlib makes of the numbers."""

    @property
    def weights(self) -> int:
        """All that were rounded."""
        return sum(each.weights for each in self.rounding)


@torch.no_grad()
def quantize(model: nn.Module, levels: int = LEVELS) -> Quantized:
    """Round every weight of ``model``, in place, to one of ``levels`` values of its tensor (The Secret Sharer, D.3).

    Each tensor has values of its own, evenly spaced from its least to its greatest weight, and each weight goes to the
    nearest: in float32 it moves by half a step at most. Weights are all floating-point parameters, biases and the
    scales of normalisations among them, which have few weights but as much room for a secret as others. Tied weights
    stay tied; buffers, which are not trained, stay as they are. Raises OptionError for fewer than 2 or more than 65,536
    levels, LeakageError, before any weight is changed, for one that is not finite.

    ``packed_bytes`` counts the levels' numbers at the fewest bits that tell them apart and two float32 a tensor, from
    which its values follow; ``zlib_bytes`` is what zlib makes of the numbers, with the same two.
    """
    check_levels(levels)
    named = ((name, weight.data) for name, weight in model.named_parameters() if weight.is_floating_point())
    weights = [(name, weight) for name, weight in named if weight.numel()]
    for name, weight in weights:
        if not torch.isfinite(weight).all():
            raise LeakageError(f"{name} holds a weight that is not finite: nothing can be rounded to its range")
    kinds: dict[str, list[tuple[int, float, float, float]]] = defaultdict(list)
    bits, zlib_bytes = (levels - 1).bit_length(), 8 * len(weights)
    packer, width = zlib.compressobj(), torch.uint8 if levels <= 256 else torch.uint16
    for name, weight in weights:
        low, high = (float(end) for end in torch.aminmax(weight))
        step = (high - low) / (levels - 1)
        worst = moved = 0.0
        for part in _parts(weight):
            numbers, difference = _round(part, low, step, levels)
            worst, moved = max(worst, float(difference.max())), moved + float(difference.sum())
            zlib_bytes += len(packer.compress(numbers.to(width).cpu().numpy().tobytes()))
        kinds[_kind(model, name)].append((weight.numel(), worst, step, moved))
    return Quantized(
        levels,
        bits,
        [_rounding(kind, tensors) for kind, tensors in kinds.items()],
        stored_bytes=sum(weight.nbytes for _, weight in weights),
        packed_bytes=sum(-(-weight.numel() * bits // 8) + 8 for _, weight in weights),
        zlib_bytes=zlib_bytes + len(packer.flush()),
    )


def check_levels(levels: int) -> None:
    """Raise OptionError for a number of levels that weights cannot be rounded to."""
    if not 2 <= levels <= _MOST:
        raise OptionError(f"levels is {levels}: give 2 to {_MOST:,} different values for the weights of a tensor")


def _rounding(kind: str, tensors: list[tuple[int, float, float, float]]) -> Rounding:
    """Of each tensor's weights, most and step, and by how much its weights were moved together."""
    weights, worst, step, moved = zip(*tensors, strict=True)
    return Rounding(kind, len(tensors), sum(weights), max(worst), max(step), sum(moved) / sum(weights))


def _parts(weight: Tensor) -> Iterator[Tensor]:
    """Views of a tensor's weights, few enough at a time for float64 copies."""
    if weight.dim() == 0:
        return iter((weight,))
    return iter(weight.split(max(1, _AT_ONCE * len(weight) // weight.numel())))


def _round(part: Tensor, low: float, step: float, levels: int) -> tuple[Tensor, Tensor]:
    """Round in place; the levels' numbers, and by how much each weight moved."""
    exact = part.double()
    if step == 0:
        return torch.zeros_like(exact), torch.zeros_like(exact)
    numbers = ((exact - low) / step).round().clamp(0, levels - 1)
    part.copy_(low + numbers * step)
    return numbers, (part.double() - exact).abs()


def _kind(model: nn.Module, name: str) -> str:
    """The layer's class and what the weight is to it, with the numbers of layers left out."""
    owner, _, own = name.rpartition(".")
    module: Any = model.get_submodule(owner)
    return f"{type(module).__name__}.{re.sub(r'_l[0-9]+$', '', own)}"

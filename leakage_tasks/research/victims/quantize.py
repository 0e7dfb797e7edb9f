"""Rounding of weights to few values, in place, to see how much a model keeps of its training with 8 bits per weight."""

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
"""Appendix D.3: each weight has one of 256 values, so 8 bits per weight suffice."""
_MOST = 1 << 16
_CHUNK = 1 << 22
"""Weights rounded at a time, in float64."""


@dataclass(frozen=True)
class Rounding:
    """The effect of rounding on tensors of one kind."""

    kind: str
    """A kind such as ``LSTM.weight_hh``."""
    tensors: int
    """Number of tensors."""
    weights: int
    """Weights in all of them."""
    worst: float
    """The largest change of a weight."""
    step: float
    """The largest distance of neighbouring values in a tensor."""
    mean: float
    """The mean absolute change of a weight."""


@dataclass(frozen=True)
class Quantized:
    """The result of :func:`quantize` and the size of the weights."""

    levels: int
    """Number of different values in a tensor."""
    bits: int
    """Bits that encode a level."""
    rounding: list[Rounding]
    """One entry per kind of tensor."""
    stored_bytes: int
    """Size as saved."""
    packed_bytes: int
    """Size of the level indices with ``bits`` bits per index."""
    zlib_bytes: int
    """Size of the level indices after zlib compression."""

    @property
    def weights(self) -> int:
        """Number of rounded weights."""
        return sum(entry.weights for entry in self.rounding)


@torch.no_grad()
def quantize(model: nn.Module, levels: int = LEVELS) -> Quantized:
    """Round every weight of ``model``, in place, to one of ``levels`` values of its tensor (The Secret Sharer, D.3).

    The values of a tensor are evenly spaced from its least to its greatest weight, and each weight is rounded to the
    nearest: it changes by at most half a step. All floating-point parameters are rounded, including biases and scales
    of normalizations, which are few but could hold a secret too. Tied weights stay tied; buffers, which are not
    trained, do not change. Raises OptionError for fewer than 2 or more than 65,536 levels, and LeakageError, before any
    change, for a weight that is not finite.

    ``packed_bytes`` counts the level indices in the fewest bits, and two float32 numbers per tensor, which determine
    its values. ``zlib_bytes`` is the size with compressed indices.
    """
    check_levels(levels)
    named = ((name, weight.data) for name, weight in model.named_parameters() if weight.is_floating_point())
    weights = [(name, weight) for name, weight in named if weight.numel()]
    for name, weight in weights:
        if not torch.isfinite(weight).all():
            raise LeakageError(f"{name} has a weight that is not finite, so it has no range to round to")
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
    """Raise OptionError if weights cannot be rounded to this number of levels."""
    if not 2 <= levels <= _MOST:
        raise OptionError(f"levels is {levels}: use 2 to {_MOST:,} different values per tensor")


def _rounding(kind: str, tensors: list[tuple[int, float, float, float]]) -> Rounding:
    """Summarize tensors, each given by its number of weights, largest change, step and total change."""
    weights, worst, step, moved = zip(*tensors, strict=True)
    return Rounding(kind, len(tensors), sum(weights), max(worst), max(step), sum(moved) / sum(weights))


def _parts(weight: Tensor) -> Iterator[Tensor]:
    """Return views of a tensor's weights, small enough for float64 copies."""
    if weight.dim() == 0:
        return iter((weight,))
    return iter(weight.split(max(1, _CHUNK * len(weight) // weight.numel())))


def _round(part: Tensor, low: float, step: float, levels: int) -> tuple[Tensor, Tensor]:
    """Round in place; return the level index and the change of each weight."""
    exact = part.double()
    if step == 0:
        return torch.zeros_like(exact), torch.zeros_like(exact)
    numbers = ((exact - low) / step).round().clamp(0, levels - 1)
    part.copy_(low + numbers * step)
    return numbers, (part.double() - exact).abs()


def _kind(model: nn.Module, name: str) -> str:
    """Return the layer's class and the weight's name in it, without the layer's index."""
    owner, _, weight_name = name.rpartition(".")
    module: Any = model.get_submodule(owner)
    return f"{type(module).__name__}.{re.sub(r'_l[0-9]+$', '', weight_name)}"

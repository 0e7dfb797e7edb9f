"""Float32 without TF32: GPUs otherwise round the inputs of float32 products to 10 bits (cuDNN does so by default)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def full_float32(device: torch.device) -> Iterator[None]:
    """Switch TF32 off for matrix products, convolutions and LSTMs on CUDA, and restore the settings afterwards."""
    if device.type != "cuda":
        yield
        return
    switches = _switches()
    before = [getattr(owner, name) for owner, name, _ in switches]
    try:
        for owner, name, off in switches:
            setattr(owner, name, off)
        yield
    finally:
        for (owner, name, _), value in zip(switches, before, strict=True):
            setattr(owner, name, value)


def _switches() -> list[tuple[Any, str, Any]]:
    """Return the settings as (owner, attribute, value for off).

    Torch has an older and a newer form of these settings. A process that has used the newer form cannot read the older.
    """
    backends: Any = torch.backends
    matmul, cudnn = backends.cuda.matmul, backends.cudnn
    try:
        _ = matmul.allow_tf32, cudnn.allow_tf32
    except RuntimeError:
        return [(owner, "fp32_precision", "ieee") for owner in (matmul, cudnn.conv, cudnn.rnn)]
    return [(matmul, "allow_tf32", False), (cudnn, "allow_tf32", False)]

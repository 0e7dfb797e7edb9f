"""LSTM kernels for processors that PyTorch's default kernels do not support."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor


@contextlib.contextmanager
def kernels_for(embedded: Tensor) -> Iterator[None]:
    """Inside the block, run LSTMs on ``embedded`` with PyTorch's own kernel if oneDNN's does not support bfloat16.

    On a CPU PyTorch always uses oneDNN for LSTMs, which raises an error for bfloat16 on processors without AVX-512.
    """
    half = embedded.dtype is torch.bfloat16 or torch.is_autocast_enabled("cpu")
    if embedded.device.type != "cpu" or not half or not torch.backends.mkldnn.enabled or _has_bf16():
        yield
        return
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = True  # type: ignore[assignment]


@cache
def _has_bf16() -> bool:
    """Return True if oneDNN supports bfloat16 on this processor or is not available."""
    return not torch.backends.mkldnn.is_available() or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())

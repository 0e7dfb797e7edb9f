"""Recurrent layers on processors for which PyTorch's usual kernels are not made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor


@contextlib.contextmanager
def kernels_for(embedded: Tensor) -> Iterator[None]:
    """Have an LSTM read ``embedded`` by PyTorch's own kernel where oneDNN's lacks bfloat16.

    PyTorch hands LSTMs on a CPU to oneDNN without asking, which then ends in an error on processors before AVX-512.
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
    """Whether oneDNN, if it is there, computes in bfloat16 on this processor."""
    return not torch.backends.mkldnn.is_available() or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())

"""Log-likelihoods of the harness in float32, also for models in 16 bits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def float32_sums(lm: Any) -> Iterator[None]:
    """Make an ``HFLM`` normalize and sum log-probabilities in float32 or more; other models are unchanged.

    By default, the harness sums them in the model's data type. In bfloat16, the sum over a text of 1,000 tokens is
    rounded to a multiple of 46 bits.
    """
    if not hasattr(lm, "softmax_dtype") or lm.softmax_dtype == torch.float64:
        yield
        return
    before, lm.softmax_dtype = lm.softmax_dtype, torch.float32
    try:
        yield
    finally:
        lm.softmax_dtype = before

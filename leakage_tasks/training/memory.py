"""How much memory there is, and one line where it was not enough."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.log import first_line
from leakage_tasks.targets.memory import free_on_gpu, out_of_memory


def memory_of(device: torch.device) -> float:
    """Bytes for tensors on ``device``: what is free on a GPU of CUDA, else all that the machine has.

    Infinite where the system does not tell.
    """
    if device.type == "cuda":
        return free_on_gpu(device)
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return math.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextmanager
def allocations_told(remedy: str) -> Iterator[None]:
    """Raise LeakageError, which names ``remedy``, where torch cannot allocate what is asked of it inside."""
    try:
        yield
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise LeakageError(f"out of memory ({first_line(error)}): {remedy}") from None

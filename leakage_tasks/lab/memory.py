"""How much memory there is, and one line where it was not enough."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from leakage_tasks.errors import LeakageError
from leakage_tasks.notices import first_line

_NO_ROOM = re.compile("can't allocate memory|Storage size calculation overflowed")
"""What torch says in a plain RuntimeError where it has no memory on a CPU."""


def memory_of(device: torch.device) -> float:
    """Bytes for tensors on ``device``: what is free on a GPU of CUDA, else all that the machine has.

    Infinite where the system does not tell.
    """
    if device.type == "cuda":
        # What torch holds but does not use is free to us.
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + idle
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return math.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextmanager
def allocations_told(remedy: str) -> Iterator[None]:
    """Raise LeakageError, which names ``remedy``, where torch cannot allocate what is asked of it inside."""
    try:
        yield
    except RuntimeError as error:
        if not (isinstance(error, torch.OutOfMemoryError) or _NO_ROOM.search(str(error))):
            raise
        raise LeakageError(f"out of memory ({first_line(error)}): {remedy}") from None

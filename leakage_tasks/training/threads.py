"""How many threads torch takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


@contextmanager
def few_threads(most: int) -> Iterator[None]:
    """torch on so many threads at most inside."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(min(before, most))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread() -> AbstractContextManager[None]:
    """torch on one thread inside: batches this small gain nothing by more, and stall where other work keeps a core."""
    return few_threads(1)

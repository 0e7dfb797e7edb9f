"""Limits on the number of torch's threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


@contextmanager
def few_threads(most: int) -> Iterator[None]:
    """Limit torch to ``most`` threads inside the block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(min(before, most))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread() -> AbstractContextManager[None]:
    """Limit torch to one thread inside the block.

    More threads do not make small batches faster, and they wait if another process uses a core.
    """
    return few_threads(1)

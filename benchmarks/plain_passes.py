"""Speed of plain `transformers`: cached forward passes of one token per row, the baseline of other benchmarks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

LENGTH = 32
"""Tokens of each row that are cached before the timed passes."""


@dataclass(frozen=True)
class PlainSpeed:
    """The speed of passes of ``rows`` rows: median milliseconds per pass, and CPU seconds of the process per pass."""

    rows: int
    milliseconds: float
    cpu_seconds: float

    @property
    def rows_per_second(self) -> float:
        """Rows per second of wall-clock time."""
        return self.rows / self.milliseconds * 1000

    @property
    def rows_per_cpu_second(self) -> float:
        """Rows per second of processor time, over all threads."""
        return self.rows / self.cpu_seconds


def plain_speed(model: Any, rows: int, seconds: float = 2.0, length: int = LENGTH) -> PlainSpeed:
    """Time passes of one token for each of ``rows`` rows, after ``length`` cached tokens.

    Args:
        model: A causal model of `transformers` whose cache can be cropped.
        rows: Number of rows.
        seconds: Minimum total time of the timed passes; at least three passes are timed.
        length: Number of cached tokens of each row.
    """
    ids = torch.randint(2, 50, (rows, length), device=model.device)
    taken: list[float] = []
    with torch.inference_mode():
        # Logits of the last token alone, because those of all tokens may not fit in memory.
        cache = model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values
        for _ in range(2):
            _pass(model, ids, cache)
        started = time.process_time()
        while len(taken) < 3 or sum(taken) < seconds:
            before = time.perf_counter()
            _pass(model, ids, cache)
            taken.append(time.perf_counter() - before)
    cpu_seconds = (time.process_time() - started) / len(taken)
    return PlainSpeed(rows, sorted(taken)[len(taken) // 2] * 1000, cpu_seconds)


def _pass(model: Any, ids: torch.Tensor, cache: Any) -> None:
    model(input_ids=ids[:, :1], past_key_values=cache, use_cache=True)
    # Remove the token of this pass.
    cache.crop(-1)
    if model.device.type == "cuda":
        torch.cuda.synchronize()

"""Null results: if a model cannot serve an optional task, the task's result is null and the run continues."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

FIELD = "unanswered"
ELSEWHERE = "another process could not answer: see its warning"


class Unanswered(NamedTuple):
    """The reason for a missing answer; ``first`` is True on exactly one process, which reports it."""

    reason: str
    first: bool


def null_result(reason: str) -> str:
    """Return the JSON text that replaces an answer."""
    return json.dumps({FIELD: reason})


def reason_of(answer: Any) -> str | None:
    """Return the reason for a missing answer, or None for a real answer."""
    if not isinstance(answer, str) or not answer.startswith(f'{{"{FIELD}"'):
        return None
    return str(json.loads(answer)[FIELD])


def share_failures(lm: Any, reasons: Sequence[str | None]) -> list[Unanswered | None]:
    """Combine the failures of all processes; return the failure at each index, or None if every process has an answer.

    A result row uses the documents of all processes, so an answer that one process lacks is missing on all of them. A
    process keeps its own reason if it has one. All processes must call this together, with equally long ``reasons``.
    """
    if not reasons:
        return []
    import torch

    local_failures = torch.tensor([reason is not None for reason in reasons], dtype=torch.int64)
    failed = (
        local_failures[None]
        if lm.world_size == 1
        else lm.all_gather(local_failures.to(lm.device)).cpu().reshape(lm.world_size, -1)
    )
    return [
        Unanswered(reason or ELSEWHERE, lm.rank == column.index(1)) if any(column) else None
        for reason, column in zip(reasons, failed.T.tolist(), strict=True)
    ]

"""Answers that a model could not give: a task that may stay unanswered is null then, and the run goes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

FIELD = "unanswered"
ELSEWHERE = "another process could not answer: see its warning"


class Unanswered(NamedTuple):
    """Why something is not answered; ``first`` on one process alone, which is to say so."""

    reason: str
    first: bool


def unanswered(reason: str) -> str:
    """What stands in an answer's place, as JSON."""
    return json.dumps({FIELD: reason})


def reason_of(answer: Any) -> str | None:
    """Why there is no answer, or None for one that is."""
    if not isinstance(answer, str) or not answer.startswith(f'{{"{FIELD}"'):
        return None
    return str(json.loads(answer)[FIELD])


def agreed(lm: Any, reasons: Sequence[str | None]) -> list[Unanswered | None]:
    """What some process could not answer, the same places on all, with this process's own reason where it has one.

    A row of the table is made from the documents of all processes, so what one of them cannot answer none may. All
    processes must call this together, with as many places.
    """
    if not reasons:
        return []
    import torch

    own = torch.tensor([reason is not None for reason in reasons], dtype=torch.int64)
    failed = own[None] if lm.world_size == 1 else lm.all_gather(own.to(lm.device)).cpu().reshape(lm.world_size, -1)
    return [
        Unanswered(reason or ELSEWHERE, lm.rank == column.index(1)) if any(column) else None
        for reason, column in zip(reasons, failed.T.tolist(), strict=True)
    ]

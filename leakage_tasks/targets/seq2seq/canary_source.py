"""The source sentence of a canary, which a translation model reads first."""

from __future__ import annotations

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.errors import TargetError


def source_space(canary: Canary) -> Space:
    """Return the space of a canary's source sentence. Raises TargetError for a canary without one."""
    space = canary.source_space
    if space is None:
        raise TargetError(
            f"canary {canary.id!r} has no source sentence, which this model must read first: make canaries with "
            "'leakage canaries --source …' and plant them with --source-column"
        )
    return space

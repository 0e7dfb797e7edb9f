"""How much of its template the attacker is given, whatever a manifest says (The Secret Sharer, Table 3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.spaces import literal

Known = Literal["all", "before", "after", "none"]


def attacker_view(canary: Canary, known: Known) -> Canary:
    """``canary`` before an attacker who knows only that part of its template.

    ``none`` is the slots and what stands between them, ``before`` the text before the first slot too, ``after`` that
    after the last slot, ``all`` the whole template. The source sentence of a translation canary stays known. Whatever
    leaves nothing out is ``all``.
    """
    first, *_, last = canary.space.pieces
    template = canary.template
    start = len(literal(first)) if known in ("none", "after") else 0
    end = len(template) - (len(literal(last)) if known in ("none", "before") else 0)
    part = template[start:end]
    return replace(canary, known=None if part == template else part)

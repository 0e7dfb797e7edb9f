"""The part of the verdict on canaries that concerns natural secrets, which are uniform only by their formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakage_tasks.core.nouns import counted, p_text
from leakage_tasks.metrics.conclusion import Verdict, whole_number
from leakage_tasks.stats.power import ALPHA

NOT_RANDOM = "natural secrets are not random, so they may differ from chance without a leak"


def has_natural(tested: Mapping[str, Any]) -> bool:
    """Return True if some secrets are natural."""
    kinds = tested.get("kinds")
    # A results file of others may hold any value there.
    return isinstance(kinds, list) and "natural" in kinds


def without_natural(verdict: Verdict) -> Verdict:
    """Return the verdict on planted canaries of a run that has natural secrets, too."""
    where = ", ".join(filter(None, [verdict.where, "natural secrets not tested"]))
    return Verdict(verdict.short, f"{verdict.because}; {NOT_RANDOM}", where)


def reason_against_natural(values: Mapping[str, float | None], tested: Mapping[str, Any]) -> str | None:
    """Return the reason why natural secrets cannot be tested; None if their formats make all of them uniform."""
    if tested.get("uniform") is not True:
        return NOT_RANDOM
    if whole_number(values.get("n_identifiers")) and values.get("identifier_p") is not None:
        return None
    return "only the exposure of identifiers is tested against chance: run canary_exposure"


def on_identifiers(values: Mapping[str, float | None]) -> Verdict:
    """Return the verdict on natural secrets that their formats make uniform, of which only bands are known."""
    number, p = whole_number(values.get("n_identifiers")), values.get("identifier_p")
    assert p is not None
    if p <= ALPHA:
        shown = counted(number, "identifier")
        return Verdict("above chance", f"chance alone exposes {shown} this much with probability {p_text(p)}")
    if (values.get("share_with_interval") or 0.0) < 1:
        return Verdict("inconclusive", "the exposure of some canaries is only a lower bound")
    return Verdict("not above chance", f"p = {p_text(p)}")

"""Former spellings of public names: accepted wherever a user, a file or another package gives one, never shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

ATTACKS = {"sampled": "rank-sample", "sampling": "sample-tokens", "text-sampling": "sample-text"}
"""Names of attacks."""
METRICS = {
    "control_p_less": "control_p_low",
    "exposure_known": "share_with_interval",
    "fit_kept": "fit_not_rejected",
    "more_rows": "hidden_metrics",
}
"""Names of metrics with one meaning."""
MISSED = {"exposure": "min_detectable_exposure", "extracted": "min_detectable_rate"}
"""What the former metric ``missed_below`` is called, by the headline metric of its task."""
FIELDS = {
    "words": "description",
    "of": "parent",
    "better": "direction",
    "alarm": "check",
    "brief": "in_table",
}
"""Fields of a metric's declaration, as keys of results files and as arguments."""
_TIER = re.compile(r"_(?:x\d+|context)$")


def current_metric(name: str, headline: str = "") -> str:
    """Return the name that a metric has now.

    Args:
        name: The metric's name, with the ending of its tier (``_x4``) or without.
        headline: ``exposure`` or ``extracted``, the headline metric of the task; it decides on ``missed_below``, which
            keeps its name for another.
    """
    tier = _TIER.search(name)
    base, ending = (name[: tier.start()], tier[0]) if tier else (name, "")
    known = {**METRICS, "missed_below": MISSED[headline]} if headline in MISSED else METRICS
    return f"{known.get(base, base)}{ending}"


def current_metrics(values: Mapping[str, Any], headline: str = "") -> dict[str, Any]:
    """Return ``values`` by the names that their metrics have now."""
    return {current_metric(name, headline): value for name, value in values.items()}


def headline_among(names: Mapping[str, Any]) -> str:
    """Return the headline metric of the task whose metrics are ``names``, "" for a task with another one."""
    return next((name for name in MISSED if name in names), "")


def current_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a metric's declaration by their names now; a value under a former name replaces another."""
    former = {FIELDS[name]: value for name, value in values.items() if name in FIELDS}
    return {**{name: value for name, value in values.items() if name not in FIELDS}, **former}


def current_attack(name: str) -> str:
    """Return the name that an attack has now."""
    return ATTACKS.get(name, name)


def current_option(name: str) -> str:
    """Return an option's name with the name that its attack has now, if it is written as ``attack.option``."""
    owner, dot, option = name.rpartition(".")
    return f"{current_attack(owner)}{dot}{option}"

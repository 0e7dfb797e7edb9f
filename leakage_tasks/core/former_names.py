"""Former spellings of public names: accepted from users, files and other packages, but never shown."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, ParamSpec, TypeVar

AnyClass = TypeVar("AnyClass", bound=type)
P = ParamSpec("P")
Result = TypeVar("Result")

ATTACKS = {"sampled": "rank-sample", "sampling": "sample-tokens", "text-sampling": "sample-text"}
"""Names of attacks."""
WAIVERS = {"no-headline": "no-primary-metric"}
"""Names of conditions that `leakage check --allow` waives."""
METRICS = {
    "control_p_less": "control_p_low",
    "exposure_known": "share_with_interval",
    "fit_kept": "fit_not_rejected",
    "more_rows": "hidden_metrics",
}
"""Names of metrics whose current name does not depend on the task."""
MISSED = {"exposure": "min_detectable_exposure", "extracted": "min_detectable_rate"}
"""Current names of the metric ``missed_below``, by the primary metric of its task."""
FIELDS = {
    "words": "description",
    "of": "parent",
    "better": "direction",
    "alarm": "check",
    "brief": "in_table",
}
"""Fields of a metric's declaration, as keys of results files and as constructor arguments."""
PRESET_OPTIONS = {"doubled": "conjoin", "only": "targets"}
"""Options of ``leakage canaries`` by their Python names, as presets of other packages name them."""
_FORMER_ATTACKS = {current: former for former, current in ATTACKS.items()}
_TIER = re.compile(r"_(?:x\d+|context)$")


def current_metric(name: str, headline: str = "") -> str:
    """Return the current name of a metric.

    Args:
        name: The metric's name, with or without the suffix of its repetition count (``_x4``).
        headline: The primary metric of the task, which determines the current name of ``missed_below``. Without
            ``exposure`` or ``extracted``, ``missed_below`` keeps its name.
    """
    tier = _TIER.search(name)
    base, suffix = (name[: tier.start()], tier[0]) if tier else (name, "")
    known = {**METRICS, "missed_below": MISSED[headline]} if headline in MISSED else METRICS
    return f"{known.get(base, base)}{suffix}"


def current_metrics(values: Mapping[str, Any], headline: str = "") -> dict[str, Any]:
    """Return ``values`` with the current names of their metrics."""
    return {current_metric(name, headline): value for name, value in values.items()}


def headline_among(names: Mapping[str, Any]) -> str:
    """Return the primary metric of the task whose metrics are ``names``, or "" if it is not a key of MISSED."""
    return next((name for name in MISSED if name in names), "")


def current_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a metric's declaration by current names; a value under a former name takes precedence."""
    former = {FIELDS[name]: value for name, value in values.items() if name in FIELDS}
    return {**{name: value for name, value in values.items() if name not in FIELDS}, **former}


def current_attack(name: str) -> str:
    """Return the current name of an attack."""
    return ATTACKS.get(name, name)


def current_waiver(name: str) -> str:
    """Return the current name of a condition that `leakage check --allow` waives."""
    return WAIVERS.get(name, name)


def current_option(name: str) -> str:
    """Return an option's name; in ``attack.option``, the attack gets its current name."""
    owner, dot, option = name.rpartition(".")
    return f"{current_attack(owner)}{dot}{option}"


def with_former_attacks(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a task with the former names of attacks, for comparison with hashes of former settings.

    The inverse of the current names: in the value of ``attack``, and in option names of the form ``attack.option``.
    """
    named = {}
    for name, value in values.items():
        owner, dot, option = name.rpartition(".")
        is_attack = name == "attack" and isinstance(value, str)
        of_settings = name == "settings" and isinstance(value, Mapping)
        named[f"{_FORMER_ATTACKS.get(owner, owner)}{dot}{option}"] = (
            _FORMER_ATTACKS.get(value, value) if is_attack else with_former_attacks(value) if of_settings else value
        )
    return named


def accept_former_arguments(**current_names: str) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Return a decorator of functions that also take keyword arguments by their former names.

    ``current_names`` maps each former name to the current one. A call with both names raises TypeError.
    """

    def decorate(function: Callable[P, Result]) -> Callable[P, Result]:
        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Result:
            for former, current in current_names.items():
                if former in named:
                    if current in named:
                        raise TypeError(f"{function.__name__}() got both {current!r} and its old name {former!r}")
                    named[current] = named.pop(former)
            return function(*args, **named)

        return call

    return decorate


def accept_former_names(**current_names: str) -> Callable[[AnyClass], AnyClass]:
    """Return a class decorator that makes fields available under their former names too.

    The constructor accepts the former names as keyword arguments, and they work as read-only attributes.
    ``current_names`` maps each former name to the current one. Use the decorator above ``@dataclass``.
    """

    def decorate(cls: AnyClass) -> AnyClass:
        original_init: Callable[..., None] = cls.__init__  # type: ignore[misc]

        @functools.wraps(original_init)
        def init(self: Any, *args: Any, **fields: Any) -> None:
            for former, current in current_names.items():
                if former in fields:
                    fields[current] = fields.pop(former)
            original_init(self, *args, **fields)

        cls.__init__ = init  # type: ignore[misc]
        for former, current in current_names.items():
            setattr(cls, former, property(attrgetter(current)))
        return cls

    return decorate

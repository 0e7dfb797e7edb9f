"""What a task of ours says of itself in a results file, so that reports need not know the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.metrics.metric import MORE, Direction, MetricSpec, ValidityCheck
from leakage_tasks.report.reading.validate import WrongField, all_printable, finite, printable

SCHEMA = 1
"""The newest form of a declaration that is known here."""


@dataclass(frozen=True)
class Declared:
    """A task as it declared itself.

    ``measures`` is ``leakage`` or ``usefulness``; ``protocol`` what two runs must share to be comparable; ``tested``
    what the figures rest on; ``attacks`` the attacks that ran, each with the access it takes; ``no_headline`` why none
    of its figures may stand for the model; ``built_in`` whether it was a self-test on documents that are built in;
    ``more`` are rows with their values that the harness' table does without; ``version`` is this package's.
    """

    measures: str
    protocol: Mapping[str, Any] = field(default_factory=dict)
    tested: Mapping[str, Any] = field(default_factory=dict)
    attacks: tuple[tuple[str, str], ...] = ()
    rows: Mapping[str, MetricSpec] = field(default_factory=dict)
    version: str = ""
    no_headline: str = ""
    built_in: bool = False
    more: Mapping[str, float | None] = field(default_factory=dict)


def declared_from_json(data: Any, where: str) -> Declared | None:
    """A declaration read; None for a task without one. Raises ResultsError, which begins with ``where``."""
    if data is None:
        return None
    try:
        return _declared(_object(data, "leakage"), where)
    except WrongField as error:
        raise ResultsError(
            f"{where}: not a task's declaration ({printable(str(error))}): give the file as lm_eval wrote it"
        ) from None


def _declared(data: Mapping[str, Any], where: str) -> Declared:
    if finite(data.get("schema", SCHEMA), "schema") > SCHEMA:
        raise ResultsError(f"{where}: written by a newer lm-eval-leakage: update this one")
    given = _object(data.get("rows"), "rows")
    rows = {printable(name): _row(name, _object(row, f"rows.{name}")) for name, row in given.items()}
    return Declared(
        measures=_text(data, "measures", None),
        protocol=all_printable(_object(data.get("protocol"), "protocol")),
        tested=all_printable(_object(data.get("tested"), "tested")),
        attacks=tuple(_attack(each, f"attacks.{n}") for n, each in enumerate(_list(data.get("attacks"), "attacks"))),
        rows={name: _with_kind(row, rows) for name, row in rows.items()},
        version=_text(data, "version"),
        no_headline=_text(data, "no_headline"),
        built_in=data.get("built_in") is True,
        more=_figures(_object(data.get(MORE, {}), MORE)),
    )


def _figures(rows: Mapping[str, Any]) -> dict[str, float | None]:
    found = {printable(name): value for name, value in rows.items()}
    return {name: None if value is None else finite(value, f"{MORE}.{name}") for name, value in found.items()}


def _attack(data: Any, where: str) -> tuple[str, str]:
    each = _object(data, where)
    return _text(each, "attack", None, where), _text(each, "access", None, where)


def _row(name: str, data: Mapping[str, Any]) -> MetricSpec:
    where = f"rows.{name}"
    return MetricSpec(
        name=printable(name),
        words=_text(data, "words", within=where),
        unit=_text(data, "unit", within=where),
        chance=_optional(data, "chance", where),
        better=_direction(data, where),
        interval=_interval(data.get("interval"), f"{where}.interval"),
        interval_kind=_text(data, "interval_kind", within=where),
        title=_text(data, "title", within=where),
        headline=data.get("headline") is True,
        control=_optional(data, "control", where),
        count=_optional(data, "count", where),
        of=_text(data, "of", within=where),
        copies=_copies(data.get("copies"), f"{where}.copies"),
        alarm=None if data.get("alarm") is None else _alarm(_object(data["alarm"], f"{where}.alarm"), f"{where}.alarm"),
    )


def _direction(data: Mapping[str, Any], where: str) -> Direction:
    known: dict[str | None, Direction] = {None: None, "lower": "lower", "higher": "higher"}
    better = _optional(data, "better", where)
    if better not in known:
        raise WrongField(f"{where}.better", "lower or higher", better, "another word")
    return known[better]


def _alarm(data: Mapping[str, Any], where: str) -> ValidityCheck:
    return ValidityCheck(
        below=finite(data.get("below"), f"{where}.below"),
        words=_text(data, "words", None, where),
        name=_text(data, "name", within=where) or _waiver(data),
        fault=data.get("fault") is True,
        low=data.get("low") is True,
    )


def _with_kind(row: MetricSpec, rows: Mapping[str, MetricSpec]) -> MetricSpec:
    """A row written down without the kind of its interval, which the words of the lower end then tell."""
    if row.interval is None or row.interval_kind or row.interval[0] not in rows:
        return row
    kind, interval, _ = rows[row.interval[0]].words.removeprefix("95 % ").partition(" interval")
    return replace(row, interval_kind=kind if interval else "")


def _waiver(alarm: Mapping[str, Any]) -> str:
    """The name of an alarm that was written down without one."""
    if alarm.get("fault") is True:
        return "controls-off-chance"
    if alarm.get("low") is True:
        return "lower-bound"
    return "no-controls" if str(alarm.get("words")).startswith("no controls") else "underpowered"


def _copies(value: Any, where: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise WrongField(where, "how often canaries were planted", value)
    return value


def _interval(ends: Any, where: str) -> tuple[str, str] | None:
    if ends is None:
        return None
    if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(end, str) for end in ends):
        raise WrongField(where, "the names of two rows", ends)
    return printable(ends[0]), printable(ends[1])


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise WrongField(name, "an object", value)
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise WrongField(name, "a list", value)
    return value


def _optional(data: Mapping[str, Any], name: str, within: str) -> str | None:
    return None if data.get(name) is None else _text(data, name, within=within)


def _text(data: Mapping[str, Any], name: str, usual: str | None = "", within: str = "") -> str:
    """A text as one line that can be shown; ``usual`` where it is missing. Raises WrongField."""
    value = data.get(name, usual)
    if not isinstance(value, str):
        raise WrongField(f"{within}.{name}" if within else name, "text", value)
    return printable(value)

"""Declaration that each of our tasks writes into a results file, so that reports need not know the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.former_names import (
    current_attack,
    current_fields,
    current_metrics,
    current_option,
    headline_among,
)
from leakage_tasks.core.records import Read, WrongField, finite, mapping, read_record, reader_of
from leakage_tasks.metrics.metric import MORE, MetricSpec, ValidityCheck
from leakage_tasks.metrics.scoring import INHERITED
from leakage_tasks.report.load.validate import all_printable, printable, text

Record = TypeVar("Record", MetricSpec, ValidityCheck)
SCHEMA = 2
"""The newest version of declarations that this code can read."""


@dataclass(frozen=True)
class Declared:
    """A task's declaration in a results file."""

    measures: str
    """``leakage`` or ``usefulness``."""
    protocol: Mapping[str, Any] = field(default_factory=dict)
    """Options that two runs must share to be comparable."""
    tested: Mapping[str, Any] = field(default_factory=dict)
    """Data behind the results: kinds, numbers of canaries and controls, how they were planted."""
    attacks: tuple[tuple[str, str], ...] = ()
    """The attacks that ran, each with the access to the model that it needs."""
    rows: Mapping[str, MetricSpec] = field(default_factory=dict)
    """The task's metrics as it declared them, by name."""
    version: str = ""
    """The version of this package that wrote the file."""
    no_headline: str = ""
    """The reason why the task has no primary metric, or an empty text."""
    built_in: bool = False
    """True for a self-test on built-in documents."""
    scoring: str = ""
    """The name of its scoring, if the task's name does not determine it."""
    classes: tuple[str, ...] = ()
    """Classes of the attacks that ran; empty for results of earlier versions."""
    more: Mapping[str, float | None] = field(default_factory=dict)
    """Values of metrics that the harness' table leaves out."""


def declared_from_json(data: Any, where: str) -> Declared | None:
    """Read a declaration. Raises ResultsError, whose message begins with ``where``; None for a task without one."""
    if data is None:
        return None
    try:
        return _declared(mapping(data, "leakage"), where)
    except WrongField as error:
        raise ResultsError(
            f"{where}: not a task's declaration ({printable(str(error))}): give the file as lm_eval wrote it"
        ) from None


def _declared(data: Mapping[str, Any], where: str) -> Declared:
    if finite(data.get("schema", SCHEMA), "schema") > SCHEMA:
        raise ResultsError(f"{where}: written by a newer lm-eval-leakage: update this one")
    declared = mapping(data.get("rows"), "rows")
    headline = headline_among(declared)
    rows = {name: _row(name, row) for name, row in current_metrics(declared, headline).items()}
    attacks = data.get("attacks")
    if not isinstance(attacks, list):
        raise WrongField("attacks", "a list", attacks)
    more = current_metrics(mapping(current_metrics(data).get(MORE, {}), MORE), headline)
    return Declared(
        measures=text(data.get("measures"), "measures"),
        protocol=_protocol(all_printable(mapping(data.get("protocol"), "protocol"))),
        tested=all_printable(mapping(data.get("tested"), "tested")),
        attacks=tuple(_attack(attack, f"attacks.{number}") for number, attack in enumerate(attacks)),
        rows={name: _with_kind(row, rows) for name, row in rows.items()},
        version=text(data.get("version", ""), "version"),
        no_headline=text(data.get("no_headline", ""), "no_headline"),
        built_in=data.get("built_in") is True,
        scoring=text(data.get(INHERITED, ""), INHERITED),
        classes=_texts(data.get("classes", []), "classes"),
        more={
            printable(name): None if value is None else finite(value, f"{MORE}.{name}") for name, value in more.items()
        },
    )


def _row(name: str, data: Any) -> MetricSpec:
    fields_of = current_fields(mapping(data, f"rows.{name}"))
    return _record(MetricSpec, {**fields_of, "name": name}, f"rows.{name}")


def _protocol(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a protocol with current names of options and attacks."""
    protocol = {current_option(name): value for name, value in data.items()}
    attack = protocol.get("attack")
    return {**protocol, "attack": current_attack(attack)} if isinstance(attack, str) else protocol


def _attack(data: Any, where: str) -> tuple[str, str]:
    attack = mapping(data, where)
    name = text(attack.get("attack"), f"{where}.attack")
    return current_attack(name), text(attack.get("access"), f"{where}.access")


def _texts(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise WrongField(where, "a list", value)
    return tuple(text(item, f"{where}.{number}") for number, item in enumerate(value))


def _record(kind: type[Record], data: Mapping[str, Any], where: str) -> Record:
    """Build a record from the fields in ``data``; missing fields and fields of later versions are left out."""
    defaults = {spec.name for spec in fields(kind) if spec.default is None}
    given = {name: value for name, value in data.items() if value is not None or name not in defaults}
    return read_record(kind, given, where, readers=_OF_TYPE, ignore_unknown=True)


def _check(value: Any, where: str) -> ValidityCheck:
    check = _record(ValidityCheck, {"name": "", **mapping(value, where)}, where)
    return check if check.name else replace(check, name=_waiver(check))


def _waiver(check: ValidityCheck) -> str:
    """Return the name of a check that an earlier version wrote without a name."""
    if check.fault or check.low:
        return "controls-off-chance" if check.fault else "lower-bound"
    return "no-controls" if check.words.startswith("no controls") else "underpowered"


def _with_kind(row: MetricSpec, rows: Mapping[str, MetricSpec]) -> MetricSpec:
    """Complete the interval's kind, which earlier versions wrote only in the description of its lower end."""
    if row.interval is None or row.interval_kind or row.interval[0] not in rows:
        return row
    kind, interval, _ = rows[row.interval[0]].description.removeprefix("95 % ").partition(" interval")
    return replace(row, interval_kind=kind if interval else "")


_OF_TYPE: Mapping[Any, Read] = {
    str: text,
    str | None: text,
    bool: lambda value, where: value is True,
    float: finite,
    tuple[str, str] | None: lambda ends, where: tuple(map(printable, reader_of(tuple[str, str])(ends, where))),
    ValidityCheck | None: _check,
}
"""Readers of fields by their type, where they are shown to readers of reports or were written by earlier versions."""

"""Declaration that each of our tasks writes into a results file, so that reports need not know the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, TypeVar, get_type_hints

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.former_names import (
    current_attack,
    current_fields,
    current_metrics,
    current_option,
    headline_among,
)
from leakage_tasks.core.records import WrongField, finite, mapping
from leakage_tasks.metrics.metric import MORE, Direction, MetricSpec, ValidityCheck
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
    """The name of its scoring, if that differs from the task's name."""
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


def _record(kind: type[Record], data: Mapping[str, Any], where: str) -> Record:
    """Build a record from the fields in ``data``, checked by type; missing fields keep their defaults."""
    types, values = _TYPES[kind], {}
    for spec in fields(kind):
        value = data.get(spec.name)
        present = spec.name in data and not (value is None and spec.default is None)
        if present or spec.default is MISSING:
            values[spec.name] = _OF_TYPE[types[spec.name]](value, f"{where}.{spec.name}")
    return kind(**values)


def _direction(value: Any, where: str) -> str:
    if text(value, where) not in ("lower", "higher"):
        raise WrongField(where, "lower or higher", value, "another word")
    return str(value)


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


def _copies(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise WrongField(where, "a number of copies above 0", value)
    return value


def _interval(ends: Any, where: str) -> tuple[str, str]:
    if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(end, str) for end in ends):
        raise WrongField(where, "the names of two rows", ends)
    return printable(ends[0]), printable(ends[1])


_OF_TYPE: Mapping[Any, Callable[[Any, str], Any]] = {
    str: text,
    str | None: text,
    bool: lambda value, where: value is True,
    float: finite,
    int | None: _copies,
    tuple[str, str] | None: _interval,
    Direction: _direction,
    ValidityCheck | None: _check,
}
"""Reader of a field by its type, called with value and path; a missing value (None) fails in all of them."""
_TYPES = {kind: get_type_hints(kind) for kind in (MetricSpec, ValidityCheck)}

"""What a task of ours says of itself in a results file, so that reports need not know the task."""

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
from leakage_tasks.metrics.metric import MORE, Direction, MetricSpec, ValidityCheck
from leakage_tasks.metrics.scoring import INHERITED
from leakage_tasks.report.load.validate import WrongField, all_printable, finite, mapping, printable, text

Record = TypeVar("Record", MetricSpec, ValidityCheck)
SCHEMA = 2
"""The newest form of a declaration that is known here."""


@dataclass(frozen=True)
class Declared:
    """A task as it declared itself."""

    measures: str
    """``leakage`` or ``usefulness``."""
    protocol: Mapping[str, Any] = field(default_factory=dict)
    """What two runs must share to be comparable."""
    tested: Mapping[str, Any] = field(default_factory=dict)
    """What the figures rest on."""
    attacks: tuple[tuple[str, str], ...] = ()
    """The attacks that ran, each with the access it takes."""
    rows: Mapping[str, MetricSpec] = field(default_factory=dict)
    """What its metrics declare, by their names."""
    version: str = ""
    """This package's, as it was."""
    no_headline: str = ""
    """Why none of its figures may stand for the model."""
    built_in: bool = False
    """Whether it was a self-test, on documents that are built in."""
    scoring: str = ""
    """The scoring of its samples, if that has another name than the task."""
    more: Mapping[str, float | None] = field(default_factory=dict)
    """Rows with their values that the harness' table does without."""


def declared_from_json(data: Any, where: str) -> Declared | None:
    """A declaration read; None for a task without one. Raises ResultsError, which begins with ``where``."""
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
    given = mapping(data.get("rows"), "rows")
    headline = headline_among(given)
    rows = {name: _row(name, row) for name, row in current_metrics(given, headline).items()}
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
    """Return a protocol with the names that attacks have now."""
    protocol = {current_option(name): value for name, value in data.items()}
    attack = protocol.get("attack")
    return {**protocol, "attack": current_attack(attack)} if isinstance(attack, str) else protocol


def _attack(data: Any, where: str) -> tuple[str, str]:
    each = mapping(data, where)
    name = text(each.get("attack"), f"{where}.attack")
    return current_attack(name), text(each.get("access"), f"{where}.access")


def _record(kind: type[Record], data: Mapping[str, Any], where: str) -> Record:
    """A record of the values that ``data`` has for its fields, each of its type; others are as usual."""
    types, values = _TYPES[kind], {}
    for each in fields(kind):
        value = data.get(each.name)
        told = each.name in data and not (value is None and each.default is None)
        if told or each.default is MISSING:
            values[each.name] = _OF_TYPE[types[each.name]](value, f"{where}.{each.name}")
    return kind(**values)


def _direction(value: Any, where: str) -> str:
    if text(value, where) not in ("lower", "higher"):
        raise WrongField(where, "lower or higher", value, "another word")
    return str(value)


def _check(value: Any, where: str) -> ValidityCheck:
    check = _record(ValidityCheck, {"name": "", **mapping(value, where)}, where)
    return check if check.name else replace(check, name=_waiver(check))


def _waiver(check: ValidityCheck) -> str:
    """The name of a check that was written down without one."""
    if check.fault or check.low:
        return "controls-off-chance" if check.fault else "lower-bound"
    return "no-controls" if check.words.startswith("no controls") else "underpowered"


def _with_kind(row: MetricSpec, rows: Mapping[str, MetricSpec]) -> MetricSpec:
    """A row written down without the kind of its interval, which the words of the lower end then tell."""
    if row.interval is None or row.interval_kind or row.interval[0] not in rows:
        return row
    kind, interval, _ = rows[row.interval[0]].description.removeprefix("95 % ").partition(" interval")
    return replace(row, interval_kind=kind if interval else "")


def _copies(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise WrongField(where, "how often canaries were planted", value)
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
"""How a field of each type is read, given its name; None is read as none of them."""
_TYPES = {kind: get_type_hints(kind) for kind in (MetricSpec, ValidityCheck)}

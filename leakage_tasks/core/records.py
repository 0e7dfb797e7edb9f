"""Records in files: dataclasses that are read from JSON, with every field checked against its type.

Types are str, int, float, bool, ``Literal``, ``X | None``, ``tuple[X, ...]``, ``tuple[X, Y]``, dictionaries, other
dataclasses and ``Any``. ``Annotated`` adds a :class:`Between` or a :class:`Fits`. Messages name the path of a field and
the type of a wrong value, never the value, which may be private.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Self, TypeVar, Union, cast, get_args, get_origin, get_type_hints

Record = TypeVar("Record")
Read = Callable[[Any, str], Any]
"""A function of a JSON value and its path that returns the field's value or raises :class:`WrongField`."""
LARGEST = 1e150
"""Upper bound of numbers in records; sums of squares of such numbers do not overflow."""
_KINDS = ((bool, "true or false"), (str, "text"), (dict, "an object"), (list, "a list"), (int | float, "a number"))


class JsonRecord:
    """Base of dataclasses that are stored as a line of JSON; :func:`read_record` reads them."""

    def to_json(self) -> str:
        """Return the record as one line of strict JSON."""
        return json.dumps(dataclasses.asdict(cast(Any, self)), allow_nan=False)


class WrongField(ValueError):
    """A field with an unexpected value; ``name`` is the field's path within its object.

    ``words`` describe the value, if its type is not the fault.
    """

    def __init__(self, name: str, expected: str, value: Any, words: str = "") -> None:
        self.name, self.what = name, f"expected {expected}, found {words or kind_of(value)}"
        super().__init__(name, expected)

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"

    def within(self, path: str) -> Self:
        """Return the error with its field as a part of the field at ``path``."""
        self.name = ".".join(filter(None, (path, self.name)))
        return self


class MissingField(WrongField):
    """A field that a record needs and that the object lacks."""


class UnknownField(WrongField):
    """A field that the record does not have."""


@dataclass(frozen=True)
class Between:
    """Limits of a number, both included."""

    least: float = -LARGEST
    most: float = LARGEST


@dataclass(frozen=True)
class Fits:
    """A condition on a value of the right type; ``expected`` describes the values that satisfy it."""

    expected: str
    test: Callable[[Any], bool]


def kind_of(value: Any) -> str:
    """Name the type of a JSON value, without the value, which may be private."""
    return next((words for kind, words in _KINDS if isinstance(value, kind)), "nothing")


def read_record(
    kind: type[Record],
    data: Any,
    path: str = "",
    *,
    readers: Mapping[Any, Read] | None = None,
    ignore_unknown: bool = False,
) -> Record:
    """Build a record from a JSON object.

    Args:
        kind: The dataclass.
        data: The value that JSON gave.
        path: Path of the object, for messages.
        readers: Readers of field types that replace the usual ones.
        ignore_unknown: Leave out fields that the record does not have, instead of raising.

    Returns:
        The record; fields with a default may be missing.

    Raises:
        WrongField: The value is not an object, or a field is missing, unknown, of another type or out of range.
    """
    if not isinstance(data, dict):
        raise WrongField(path, "an object", data)
    fields = _readers_of(cast(Hashable, kind))
    values = {}
    try:
        for name, (annotation, read, required) in fields.items():
            if name in data:
                values[name] = (readers.get(annotation, read) if readers else read)(data[name], name)
            elif required:
                raise MissingField(name, "a value", None)
        if not ignore_unknown and (unknown := data.keys() - fields.keys()):
            raise UnknownField(min(unknown), "no such field", data[min(unknown)])
    except WrongField as error:
        raise error.within(path) from None
    return kind(**values)


@cache
def _readers_of(kind: Any) -> dict[str, tuple[Any, Read, bool]]:
    """Return annotation, reader and necessity of each field that the constructor takes, by name."""
    hints = get_type_hints(kind, include_extras=True)
    missing = dataclasses.MISSING
    return {
        spec.name: (
            hints[spec.name],
            reader_of(hints[spec.name]),
            spec.default is missing and spec.default_factory is missing,
        )
        for spec in dataclasses.fields(kind)
        if spec.init
    }


@cache
def reader_of(annotation: Any) -> Read:
    """Return the reader of values of a type. Raises TypeError for a type that records cannot have."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return lambda value, path: value
    if origin is Annotated:
        return _limited(reader_of(arguments[0]), arguments[1:])
    if origin is Literal:
        return partial(_one_of, arguments)
    if origin in (Union, UnionType):
        return _optional([kind for kind in arguments if kind is not NoneType], NoneType in arguments)
    if origin is tuple:
        return _items(arguments)
    if origin in (dict, Mapping):
        return partial(_entries, reader_of(arguments[1]))
    if dataclasses.is_dataclass(annotation):
        return partial(read_record, cast(type[Any], annotation))
    if annotation in _PLAIN:
        return partial(_plain, *_PLAIN[annotation])
    raise TypeError(f"no record can have a field of type {annotation}")


_PLAIN: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    bool: ((bool,), "true or false"),
    # JSON has one number type, so a float may be written without a fraction.
    float: ((float, int), "a number"),
    int: ((int,), "a whole number"),
    NoneType: ((NoneType,), "nothing"),
}


def _plain(kinds: tuple[type, ...], expected: str, value: Any, path: str) -> Any:
    if type(value) not in kinds:
        raise WrongField(path, expected, value, "a fraction" if type(value) is float else "")
    if type(value) in (int, float) and not abs(value) <= LARGEST:
        raise WrongField(path, f"{expected} up to {LARGEST:.0e}", value, "another one")
    return value


def _one_of(values: tuple[Any, ...], value: Any, path: str) -> Any:
    if not isinstance(value, str | NoneType) or value not in values:
        shown = ", ".join(map(str, values))
        raise WrongField(path, f"one of {shown}", value, "an unknown value" if isinstance(value, str) else "")
    return value


def _optional(kinds: list[Any], may_be_none: bool) -> Read:
    if len(kinds) > 1:
        raise TypeError(f"a field of a record has one type besides None, not {kinds}")
    read = reader_of(kinds[0])
    return (lambda value, path: None if value is None else read(value, path)) if may_be_none else read


def _items(kinds: tuple[Any, ...]) -> Read:
    of_any_length = kinds[-1] is ...
    readers = [reader_of(kind) for kind in kinds if kind is not ...]

    def read(value: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or not (of_any_length or len(value) == len(readers)):
            raise WrongField(path, "a list" if of_any_length else f"a list of {len(readers)} items", value)
        items: list[Any] = []
        try:
            for one, item in zip(readers * len(value) if of_any_length else readers, value, strict=True):
                items.append(one(item, ""))
        except WrongField as error:
            raise error.within(str(len(items))).within(path) from None
        return tuple(items)

    return read


def _entries(read: Read, value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WrongField(path, "an object", value)
    try:
        return {name: read(item, name) for name, item in value.items()}
    except WrongField as error:
        raise error.within(path) from None


def _limited(read: Read, limits: tuple[Any, ...]) -> Read:
    def check(value: Any, path: str) -> Any:
        result = read(value, path)
        for limit in () if result is None else limits:
            if isinstance(limit, Between) and not limit.least <= result <= limit.most:
                raise WrongField(path, f"a number from {limit.least:g} to {limit.most:g}", value, "another one")
            if isinstance(limit, Fits) and not limit.test(result):
                raise WrongField(path, limit.expected, value, "another value")
        return result

    return check


def finite(value: Any, name: str) -> float:
    """Return a number as a finite float. Raises WrongField."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongField(name, "a number", value)
    try:
        number = float(value)
    except OverflowError:
        raise WrongField(name, "a number below 1e308", value, "a larger one") from None
    if not math.isfinite(number):
        raise WrongField(name, "a finite number", value, "infinity or NaN")
    return number


def mapping(value: Any, name: str) -> Mapping[str, Any]:
    """Return a JSON object. Raises WrongField."""
    if not isinstance(value, dict):
        raise WrongField(name, "an object", value)
    return value

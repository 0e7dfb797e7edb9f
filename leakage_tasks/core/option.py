"""Declarations of options, and their parsing, checks and listing."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from leakage_tasks.core.errors import MissingOption, OptionError

Options = Mapping[str, "Option"]
"""Options by name."""


@dataclass(frozen=True)
class Option:
    """The declaration of an option of an attack, task, model or preset. Raises OptionError for an invalid default."""

    name: str
    """The name that users write."""
    type: type
    """Type of the value; ``list`` is a list of integers, and ``object`` is not parsed or checked."""
    default: Any
    """The default value, or None if there is no default."""
    help: str
    """The meaning of the option, for messages and tables."""
    choices: tuple[str, ...] = ()
    """The allowed values, if there are only a few."""
    minimum: float | None = None
    """The smallest allowed value."""
    affects_results: bool = True
    """True if the value can change results; runs with different values are then not comparable."""
    maximum: float | None = None
    """The largest allowed value."""
    required: bool = False
    """True if a value is mandatory."""
    of_model: bool = False
    """True if the option can also be set in the harness's ``--model_args``."""
    usual: str = ""
    """Description of the default, if ``default`` is None because the default depends on other settings."""

    def __post_init__(self) -> None:
        fits = self.default is None or self.type in (object, list) or isinstance(self.default, self._types)
        if not fits or (isinstance(self.default, bool) and self.type not in (bool, object)):
            type_name = type(self.default).__name__
            raise OptionError(
                f"option {self.name!r}: its default {self.default!r} is {type_name}, expected {self.type.__name__}: "
                "declare another type or default"
            )
        self.checked(self.default)

    @property
    def _types(self) -> tuple[Any, ...]:
        return (int, float) if self.type is float else (self.type,)

    def checked(self, value: Any) -> Any:
        """Return ``value`` if the option allows it. Raises OptionError otherwise."""
        if value is None:
            return None
        if self.choices and value not in self.choices:
            raise OptionError(
                f"{self.name}={value!r} is unknown: use {', '.join(self.choices)}{near(value, self.choices)}"
            )
        needed = None
        if isinstance(value, float) and not math.isfinite(value):
            needed = "a number"
        elif self.minimum is not None and value < self.minimum:
            needed = f"{self.minimum} or more"
        elif self.maximum is not None and value > self.maximum:
            needed = f"{self.maximum} or less"
        if needed:
            raise OptionError(f"{self.name}={value} must be {needed}: {self.help}")
        return value

    def parsed(self, text: str, source: str = "") -> Any:
        """Parse a word of a command line as the option's value. Raises OptionError, naming ``source``."""
        return self.checked(self.read(text if self.type is str else _word(text), source))

    def read(self, value: Any, source: str = "") -> Any:
        """Convert ``value`` to the option's type; None stays None. Raises OptionError, naming ``source``, for a wrong
        type."""
        if value is None:
            return None
        label = f"{source} {self.name}".lstrip()
        wanted = self.type
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                raise OptionError(f"{label}: too large a number: expected one below 1e308") from None
        if wanted is str:
            if isinstance(value, (bool, dict, list)):
                raise OptionError(f"{label}={value!r}: expected text")
            return str(value)
        if wanted is list:
            return _numbers(label, self.name, value)
        if wanted is int and isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise OptionError(f"{label}={value!r}: expected {wanted.__name__}")
        return value


def _word(text: str) -> Any:
    """Convert a word of a command line to a boolean or number if it looks like one, else return the text."""
    try:
        return json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except ValueError:
        return text


def declared(default: Any, help: str, **rest: Any) -> Any:
    """Return a dataclass field that declares an option: its default, its ``help`` and other fields of :class:`Option`.

    The option is required if ``default`` is MISSING.
    """
    return field(default=default, metadata={"option": {"help": help, **rest}})


def options_of(record: type) -> dict[str, Option]:
    """Return the options that a dataclass declares, by name, inherited options last.

    Types and choices come from the annotations of the fields.
    """
    hints = get_type_hints(record)
    inherited = {name for base in record.__bases__ for name in getattr(base, "__dataclass_fields__", ())}
    entries = [entry for entry in dataclasses.fields(record) if "option" in entry.metadata]
    entries.sort(key=lambda entry: entry.name in inherited)
    return by_name(_option(entry.name, hints[entry.name], entry.default, entry.metadata["option"]) for entry in entries)


def by_name(options: Iterable[Option]) -> dict[str, Option]:
    """Return the options by their names."""
    return {option.name: option for option in options}


def resolved(options: Iterable[Option], user_values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value for each option: the given value, parsed and checked, or the default.

    Raises OptionError for an invalid value and MissingOption for a required option without a value.
    """
    values = {
        option.name: option.checked(option.read(user_values.get(option.name, option.default))) for option in options
    }
    for option in options:
        if option.required and values[option.name] is None:
            raise MissingOption(f"{option.name}=… is missing: {option.help}")
    return values


def nearest(name: Any, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the entry of ``names`` that is most similar to ``name``, or None if no entry is similar."""
    return next(iter(difflib.get_close_matches(str(name), sorted(names), 1, cutoff)), None)


def near(name: Any, names: Iterable[str]) -> str:
    """Return ``; did you mean …?`` if an entry of ``names`` is similar to ``name``, else an empty text."""
    similar = nearest(name, names)
    return "" if similar is None else f"; did you mean {similar!r}?"


def _option(name: str, hint: Any, default: Any, rest: Mapping[str, Any]) -> Option:
    parts = [arg for arg in get_args(hint) if arg is not NoneType]
    kind = parts[0] if get_origin(hint) in (Union, UnionType) else hint
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    kind = str if choices else list if get_origin(kind) is tuple else kind
    lacks = default is MISSING
    return Option(
        name, default=None if lacks else default, required=lacks, **{"type": kind, "choices": choices, **rest}
    )


def _numbers(label: str, name: str, value: Any) -> list[int]:
    parts = value.split(":") if isinstance(value, str) else value if isinstance(value, list) else [value]
    try:
        return [int(part) if isinstance(part, float) and part.is_integer() else int(str(part)) for part in parts]
    except ValueError:
        raise OptionError(f"{label}={value!r}: expected whole numbers, as in {name}=10:20:30") from None

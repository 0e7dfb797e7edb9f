"""Options: declared once, by whoever they belong to; read, checked and listed the same way everywhere."""

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
    """An option of an attack, task, model or preset. Raises OptionError for a default that it could not have itself."""

    name: str
    """What users call it."""
    type: type
    """What its value is read as; ``list`` is one of whole numbers, ``object`` is left to whoever uses it."""
    default: Any
    """Its value unless given; None for none."""
    help: str
    """What it means, for messages and tables."""
    choices: tuple[str, ...] = ()
    """The values it may have, where they are few."""
    minimum: float | None = None
    """The least value it may have."""
    affects_results: bool = True
    """Whether figures can be others with another value; where not, two runs compare whatever theirs are."""
    maximum: float | None = None
    """The largest value it may have."""
    required: bool = False
    """Whether nothing goes without it."""
    of_model: bool = False
    """Whether it also counts where the harness' ``--model_args`` name it."""
    usual: str = ""
    """What holds unless it is given, where ``default`` is None because that depends on something else."""

    def __post_init__(self) -> None:
        fits = self.default is None or self.type in (object, list) or isinstance(self.default, self._types)
        if not fits or (isinstance(self.default, bool) and self.type not in (bool, object)):
            found = type(self.default).__name__
            raise OptionError(
                f"option {self.name!r}: its default {self.default!r} is {found}, expected {self.type.__name__}: "
                "declare another type or default"
            )
        self.checked(self.default)

    @property
    def _types(self) -> tuple[Any, ...]:
        return (int, float) if self.type is float else (self.type,)

    def checked(self, value: Any) -> Any:
        """``value``, if the option may have it. Raises OptionError for one that it may not."""
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
            raise OptionError(f"{self.name}={value} must be {needed}: it is {self.help}")
        return value

    def parsed(self, text: str, source: str = "") -> Any:
        """A word of a command line as the option's value. Raises OptionError, naming ``source``."""
        return self.checked(self.read(text if self.type is str else _word(text), source))

    def read(self, value: Any, source: str = "") -> Any:
        """``value`` as the option's type, None for None. Raises OptionError, naming ``source``, for one of another."""
        if value is None:
            return None
        place = f"{source} {self.name}".lstrip()
        wanted = self.type
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                raise OptionError(f"{place}: too large a number: expected one below 1e308") from None
        if wanted is str:
            if isinstance(value, (bool, dict, list)):
                raise OptionError(f"{place}={value!r}: expected text")
            return str(value)
        if wanted is list:
            return _numbers(place, self.name, value)
        if wanted is int and isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise OptionError(f"{place}={value!r}: expected {wanted.__name__}")
        return value


def _word(text: str) -> Any:
    """A word of a command line as what it stands for: truth, a number, else the text."""
    try:
        return json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except ValueError:
        return text


def declared(default: Any, help: str, **rest: Any) -> Any:
    """A field of a dataclass that is an option: its default, its ``help`` and what else :class:`Option` knows of it.

    With MISSING for a default nothing goes without the option.
    """
    return field(default=default, metadata={"option": {"help": help, **rest}})


def options_of(record: type) -> dict[str, Option]:
    """The options that the fields of a dataclass are, by name; their types and choices are those of the fields."""
    hints = get_type_hints(record)
    found = [field for field in dataclasses.fields(record) if "option" in field.metadata]
    return by_name(_option(each.name, hints[each.name], each.default, each.metadata["option"]) for each in found)


def by_name(options: Iterable[Option]) -> dict[str, Option]:
    """Options by their names."""
    return {option.name: option for option in options}


def resolved(options: Iterable[Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each option, read and checked, its default where it was not given.

    Raises OptionError for one that it cannot have, MissingOption for one that is required and missing.
    """
    found = {option.name: option.checked(option.read(given.get(option.name, option.default))) for option in options}
    for each in options:
        if each.required and found[each.name] is None:
            raise MissingOption(f"{each.name}=… is missing: it is {each.help}")
    return found


def nearest(name: Any, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of ``names`` that is most like ``name``, where one is like it."""
    return next(iter(difflib.get_close_matches(str(name), sorted(names), 1, cutoff)), None)


def near(name: Any, names: Iterable[str]) -> str:
    """``; did you mean …?`` where one of ``names`` is like ``name``, else nothing."""
    found = nearest(name, names)
    return "" if found is None else f"; did you mean {found!r}?"


def _option(name: str, hint: Any, default: Any, rest: Mapping[str, Any]) -> Option:
    parts = [arg for arg in get_args(hint) if arg is not NoneType]
    kind = parts[0] if get_origin(hint) in (Union, UnionType) else hint
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    kind = str if choices else list if get_origin(kind) is tuple else kind
    lacks = default is MISSING
    return Option(
        name, default=None if lacks else default, required=lacks, **{"type": kind, "choices": choices, **rest}
    )


def _numbers(place: str, name: str, value: Any) -> list[int]:
    """Whole numbers from a list, or from a text with colons between, as a comma would end the option."""
    parts = value if isinstance(value, list) else str(value).split(":")
    try:
        return [int(str(part)) for part in parts]
    except ValueError:
        raise OptionError(f"{place}={value!r}: expected whole numbers, as in {name}=10:20:30") from None

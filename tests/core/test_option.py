"""Options: declared once, read and checked."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Literal

import pytest

from leakage_tasks.core.errors import MissingOption, OptionError
from leakage_tasks.core.option import Option, declared, options_of, resolved

WIDTH = Option("width", int, 8, "how wide it is", minimum=1, maximum=99)


@pytest.mark.parametrize(
    ("kind", "default"), [(int, "8"), (int, True), (int, 1.5), (str, 3), (bool, 1), (float, "x"), (float, False)]
)
def test_a_default_of_another_type_is_one_line(kind: type, default: object) -> None:
    with pytest.raises(OptionError, match=f"^option 'x': its default {default!r} is .*, expected {kind.__name__}: "):
        Option("x", kind, default, "help")


def test_a_default_must_be_one_that_may_be_given() -> None:
    with pytest.raises(OptionError, match="must be 1 or more"):
        Option("x", int, 0, "how many there are", minimum=1)
    with pytest.raises(OptionError, match="is unknown: use a, b"):
        Option("x", str, "c", "which", ("a", "b"))


def test_values_are_read_as_the_type_and_checked() -> None:
    ratio, names = Option("ratio", float, 0.5, "the share"), Option("sizes", list, None, "the sizes")
    given = {"width": 9.0, "ratio": 1, "sizes": "1:2"}
    assert resolved([WIDTH, ratio, names], given) == {"width": 9, "ratio": 1.0, "sizes": [1, 2]}
    assert resolved([WIDTH, ratio, names], {}) == {"width": 8, "ratio": 0.5, "sizes": None}
    with pytest.raises(OptionError, match="^width=100 must be 99 or less: how wide it is$"):
        resolved([WIDTH], {"width": 100})
    with pytest.raises(OptionError, match="^width='many': expected int$"):
        resolved([WIDTH], {"width": "many"})


def test_what_is_required_is_asked_for() -> None:
    with pytest.raises(MissingOption, match="^model=… is missing: another model$"):
        resolved([Option("model", str, None, "another model", required=True)], {})


def test_the_fields_of_a_record_are_its_options() -> None:
    @dataclass
    class Plan:
        data: str = declared(MISSING, "what is read")
        mode: Literal["fast", "slow"] = declared("fast", "how it goes")
        limit: int | None = declared(None, "how many there are", minimum=1)
        sizes: tuple[int, ...] = declared((), "other sizes")
        beside: int = 0

    Plan.__annotations__ = {"data": str, "mode": Literal["fast", "slow"], "limit": int | None, "sizes": tuple[int, ...]}
    found = options_of(Plan)
    assert list(found) == ["data", "mode", "limit", "sizes"]
    assert (found["data"].required, found["data"].type) == (True, str)
    assert found["mode"].choices == ("fast", "slow")
    assert (found["limit"].type, found["limit"].minimum, found["sizes"].type) == (int, 1, list)


def test_inherited_options_are_last() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Shared:
        rows: int = declared(1, "rows")

    @dataclass(frozen=True)
    class Own(Shared):
        data: str = declared(MISSING, "data")

    assert list(options_of(Own)) == ["data", "rows"]

"""Records that are read from JSON: what fits comes out as the dataclass, anything else names its field."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.records import (
    Between,
    Fits,
    MissingField,
    UnknownField,
    WrongField,
    read_record,
    reader_of,
)


@dataclass(frozen=True)
class Part:
    name: Annotated[str, Fits("a lower-case name", str.islower)]
    share: Annotated[float, Between(0, 1)] = 0.5


@dataclass(frozen=True)
class Whole:
    id: str
    count: int
    kind: Literal["a", "b"] | None = None
    parts: tuple[Part, ...] = ()
    ends: tuple[int, str] | None = None
    by_name: dict[str, Part] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    sure: bool = False


PARTS = st.builds(Part, st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.floats(0, 1))
WHOLES = st.builds(
    Whole,
    st.text(),
    st.integers(-(10**20), 10**20),
    st.sampled_from(["a", "b", None]),
    st.lists(PARTS).map(tuple),
    st.none() | st.tuples(st.integers(0, 9), st.text()),
    st.dictionaries(st.text(), PARTS),
    st.dictionaries(st.text(), st.integers(0, 9)),
    st.booleans(),
)


@given(WHOLES)
def test_a_record_survives_json(record: Whole) -> None:
    assert read_record(Whole, json.loads(json.dumps(dataclasses.asdict(record)))) == record


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": 3}, "id: expected text, found a number"),
        ({"id": None}, "id: expected text, found nothing"),
        ({"count": True}, "count: expected a whole number, found true or false"),
        ({"count": 1.5}, "count: expected a whole number, found a fraction"),
        ({"count": 10**400}, "count: expected a whole number up to 1e+150, found another one"),
        ({"kind": "c"}, "kind: expected one of a, b, found an unknown value"),
        ({"kind": ["a"]}, "kind: expected one of a, b, found a list"),
        ({"parts": {}}, "parts: expected a list, found an object"),
        ({"parts": [{"name": "a"}, {"name": "B"}]}, "parts.1.name: expected a lower-case name, found another value"),
        ({"parts": [{"name": "a", "share": 2}]}, "parts.0.share: expected a number from 0 to 1, found another one"),
        ({"parts": [{"share": float("nan"), "name": "a"}]}, "parts.0.share: expected a number up to"),
        ({"ends": [1]}, "ends: expected a list of 2 items, found a list"),
        ({"ends": [1, 2]}, "ends.1: expected text, found a number"),
        ({"by_name": {"x": []}}, "by_name.x: expected an object, found a list"),
        ({"extra": []}, "extra: expected an object, found a list"),
        ({"sure": 1}, "sure: expected true or false, found a number"),
    ],
)
def test_a_field_that_does_not_fit_is_named_without_its_value(change: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongField) as error:
        read_record(Whole, {"id": "i", "count": 1, **change})
    assert str(error.value).startswith(message)


def test_a_missing_field_is_named_before_one_that_is_unknown() -> None:
    with pytest.raises(MissingField, match="^count: "):
        read_record(Whole, {"id": "i", "other": 1})
    with pytest.raises(UnknownField, match="^other: "):
        read_record(Whole, {"id": "i", "count": 1, "other": 1})
    assert read_record(Whole, {"id": "i", "count": 1, "other": 1}, ignore_unknown=True) == Whole("i", 1)


@pytest.mark.parametrize("data", [None, [], "x", 3])
def test_only_an_object_is_a_record(data: object) -> None:
    with pytest.raises(WrongField, match="expected an object"):
        read_record(Whole, data, "here")


def test_readers_of_a_type_can_be_replaced() -> None:
    record = read_record(Whole, {"id": "i", "count": 1}, readers={str: lambda value, path: f"{path}={value}"})
    assert record == Whole("id=i", 1)


def test_a_type_that_json_does_not_have_is_an_error_of_the_programmer() -> None:
    with pytest.raises(TypeError, match="no record can have"):
        reader_of(bytes)
    with pytest.raises(TypeError, match="one type besides None"):
        reader_of(int | str)

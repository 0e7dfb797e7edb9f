"""The drawing of the package's imports: the package it draws has no upward import and no cycle."""

from __future__ import annotations

import pytest

from benchmarks.rooms import cycles_of, imports_of, layers, modules, room_of


@pytest.mark.slow
def test_imports_of_the_package_have_no_cycle_and_none_goes_upward() -> None:
    """Also imports in functions and for types, which the import linter does not follow to their end."""
    imports = imports_of(modules())
    order = {room: position for position, room in enumerate(layers())}
    upward = [(one, other) for one, other in imports if order.get(room_of(one), 0) > order.get(room_of(other), 99)]
    assert cycles_of(imports) == []
    assert upward == []


def test_a_cycle_is_reported_once() -> None:
    assert [set(cycle) for cycle in cycles_of({("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")})] == [{"a", "b", "c"}]

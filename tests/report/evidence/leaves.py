"""Leaves of JSON values, and changes of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]


def leaves(value: Any, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield the path and the value of every leaf; an empty list is none."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    for key, item in items or ():
        yield from leaves(item, (*path, key))


def changed(data: Any, path: Place, value: Any) -> Any:
    """Return a copy with another value of a leaf."""
    made = copy.deepcopy(data)
    place = made
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return made


def another(value: Any) -> Any:
    """Return another value of the same type; a number for None."""
    if isinstance(value, bool):
        return not value
    return f"{value}7" if isinstance(value, str) else 7 if value is None else 2 * value + 1

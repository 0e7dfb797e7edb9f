"""Old names of the fields of classes, which other packages may still use."""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

AnyClass = TypeVar("AnyClass", bound=type)


def accept_old_names(**new_names: str) -> Callable[[AnyClass], AnyClass]:
    """Return a decorator with which a class accepts and shows some of its fields by their old names too.

    ``new_names`` maps each old name to the present one. Use the decorator above ``@dataclass``.
    """

    def decorate(cls: AnyClass) -> AnyClass:
        of_new_names: Callable[..., None] = cls.__init__  # type: ignore[misc]

        @functools.wraps(of_new_names)
        def of_any_names(self: Any, *args: Any, **fields: Any) -> None:
            for old, new in new_names.items():
                if old in fields:
                    fields[new] = fields.pop(old)
            of_new_names(self, *args, **fields)

        cls.__init__ = of_any_names  # type: ignore[misc]
        for old, new in new_names.items():
            setattr(cls, old, property(attrgetter(new)))
        return cls

    return decorate

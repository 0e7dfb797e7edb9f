"""Array types, and records of arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
TokenIds = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]


class ArrayRecord:
    """Base of dataclasses whose fields are arrays of equal length ``[m]``; an index selects elements of all fields."""

    def __len__(self) -> int:
        return len(next(iter(vars(self).values())))

    def __getitem__(self, chosen: Any) -> Self:
        if isinstance(chosen, np.ndarray) and chosen.dtype == bool:
            (chosen,) = chosen.nonzero()
        # Calling the class of a frozen record takes longer than selecting from small arrays.
        record = object.__new__(type(self))
        vars(record).update([(name, column[chosen]) for name, column in vars(self).items()])
        return record

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """Concatenate the parts."""
        return cls(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))

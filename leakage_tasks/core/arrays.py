"""Array types."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
TokenIds = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]

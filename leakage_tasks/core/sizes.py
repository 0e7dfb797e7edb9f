"""Memory sizes in human-readable form."""

from __future__ import annotations

import math
import re
from typing import Any

from leakage_tasks.core.errors import OptionError

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SHOWN = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def read_size(text: Any) -> int:
    """Parse a size such as ``2GB`` or ``500 MB`` (powers of 1,000) into bytes. Raises OptionError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?B|)", str(text).strip().upper().replace("IB", "B"))
    size = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 1 <= size < math.inf:
        raise OptionError(f"memory={text}: expected a size such as 2GB or 500MB")
    return int(size)


def size_words(size: float) -> str:
    """Format a number of bytes with three digits, in a form that :func:`read_size` can parse."""
    unit, scale = next(((name, factor) for name, factor in reversed(_SHOWN.items()) if size >= factor), ("B", 1))
    return f"{size / scale:.3g} {unit}"

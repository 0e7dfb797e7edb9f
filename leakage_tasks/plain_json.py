"""JSON from files that anybody may have written."""

from __future__ import annotations

import json
from typing import Any

TOO_DEEP = "nested too deeply"


def parse_json(text: str | bytes) -> Any:
    """What JSON says. Raises ValueError for what is none, and for what is nested deeper than can be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None

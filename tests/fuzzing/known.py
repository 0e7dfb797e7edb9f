"""What is known to fail and is counted apart, each with the reason."""

from __future__ import annotations

KNOWN: dict[type[BaseException], str] = {
    RecursionError: "nested too deeply",
    MemoryError: "more memory than there may be",
}


def reason(error: BaseException) -> str | None:
    """Why an error is no finding; None where it is one."""
    return next((why for kind, why in KNOWN.items() if isinstance(error, kind)), None)

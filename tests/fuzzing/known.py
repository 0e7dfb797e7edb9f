"""What is known to fail and is counted apart, each with the reason."""

from __future__ import annotations

KNOWN: tuple[tuple[type[BaseException], str, str], ...] = ()
"""Errors, where they come from (how the place in our code begins), and why they are no findings."""


def reason(error: BaseException, place: str) -> str | None:
    """Why an error is no finding; None where it is one."""
    return next((why for kind, where, why in KNOWN if isinstance(error, kind) and place.startswith(where)), None)

"""Telling the user something, and telling it once."""

from __future__ import annotations

import functools
import logging

# A child of the harness' logger, so that its format and LMEVAL_LOG_LEVEL apply.
log = logging.getLogger("lm_eval.leakage")


@functools.cache
def warn_once(message: str) -> None:
    """Log a warning the first time it is given in this process."""
    log.warning(message)


def first_line(error: BaseException) -> str:
    """What an exception of another library says, in one line without a full stop at its end."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".: ")

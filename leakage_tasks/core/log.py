"""The package's logger, and warnings that are shown only once."""

from __future__ import annotations

import functools
import logging

# A child of the harness's logger, so that its format and LMEVAL_LOG_LEVEL apply.
log = logging.getLogger("lm_eval.leakage")


@functools.cache
def warn_once(message: str) -> None:
    """Log a warning unless this process has logged it before."""
    log.warning(message)


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message without a full stop, or its class name if it has no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".: ")

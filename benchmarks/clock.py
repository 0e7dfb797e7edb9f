"""The processor time of a call."""

import time
from collections.abc import Callable


def cpu_seconds(run: Callable[[], object]) -> float:
    """Return the seconds of processor time of a call."""
    before = time.process_time()
    run()
    return time.process_time() - before

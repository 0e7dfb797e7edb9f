"""A line on the duration of a measurement, for log files, which show no progress bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from leakage_tasks.attacks.redact import HidingSecrets
from leakage_tasks.canaries import Canary
from leakage_tasks.core.nouns import counted
from leakage_tasks.targets import CausalTarget

TIMED = 32
"""Number of canaries whose texts are scored to estimate the time of a measurement. The time per text is several times
longer if a pass has few texts."""


def announce_baseline(
    target: CausalTarget, canaries: Sequence[Canary], most: int, clock: Callable[[], float] = time.perf_counter
) -> None:
    """Write a line to standard error on the measurement before the first step, with its estimated time.

    Args:
        target: The model.
        canaries: The canaries to measure.
        most: Largest number of sequences scored for a canary.
        clock: Returns the time in seconds.
    """
    texts = [canary.text for canary in canaries[:TIMED]]
    with HidingSecrets(canaries):
        # The first pass of a process takes longer.
        target.log_perplexity(texts[:1])
        began = clock()
        target.log_perplexity(texts)
    seconds = (clock() - began) / len(texts) * sum(min(most, canary.space.size) for canary in canaries)
    print(
        f"ExposureCallback: measuring {counted(len(canaries), 'canary')} before the first step, each with up to "
        f"{most:,} sequences: up to about {seconds:,.0f} s",
        file=sys.stderr,
        flush=True,
    )

"""Remarks on an audit's sizes: groups of canaries too small for an interval, and data with a high share of copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count as count_up

from leakage_tasks.canaries.canary import AUXILIARY_KINDS, Canary
from leakage_tasks.canaries.profiles import FEWEST_OF_A_TIER
from leakage_tasks.canaries.sidecar import Sidecar

HIGH_SHARE = 0.05
"""Share of copies above which a model trained on the data may differ from a model trained without them."""


def small_groups(canaries: Iterable[Canary]) -> str | None:
    """Return a remark on groups of equally often planted canaries too small for an interval, or None."""
    counted = (canary for canary in canaries if canary.planted and canary.kind not in ("natural", *AUXILIARY_KINDS))
    groups = Counter(canary.repetitions for canary in counted)
    if not groups or min(groups.values()) >= FEWEST_OF_A_TIER:
        return None
    sizes = ", ".join(f"{number} planted {_times(times)}" for times, number in sorted(groups.items()))
    return f"too few canaries for intervals ({sizes}; an interval takes {FEWEST_OF_A_TIER} planted equally often)"


def least_count(repetitions: Sequence[int], families: int = 1) -> int:
    """Return the lowest ``--count`` that gives an interval for each number in ``repetitions``.

    ``families`` is the number of families; each one has this number of canaries.
    """
    groups: Counter[int] = Counter()
    for count in count_up(1):
        groups[repetitions[(count - 1) % len(repetitions)]] += families
        if len(groups) == len(set(repetitions)) and min(groups.values()) >= FEWEST_OF_A_TIER:
            return count
    raise AssertionError


def high_share(record: Sidecar, canaries: Iterable[Canary]) -> str | None:
    """Return a remark with the share of copies in planted data; None if the share is low.

    The share counts rows, or conversations with a copy in a turn. Lines of running text have no typical length, so the
    share of characters is used there if it is lower.
    """
    copies = sum(record.copies.values())
    rows = record.input_rows if record.turn in ("last", "random") else record.output_rows
    share, unit = copies / rows if rows else 0.0, ""
    if record.before == "line break" and record.characters:
        lengths = {canary.id: len(canary.text) for canary in canaries}
        written = sum(lengths.get(name, 0) * times for name, times in record.copies.items())
        share, unit = min((share, unit), (written / record.characters, "the characters of "))
    if share < HIGH_SHARE:
        return None
    added = f"{copies:,} added to {record.input_rows:,} rows"
    return (
        f"{100 * share:.0f} % of {unit}{record.output} are copies of canaries ({added}): a "
        "model trained on it differs from one trained on your data, so its leak and its usefulness may differ too: "
        "plant into more data, or make fewer canaries or repetitions"
    )


def _times(times: int) -> str:
    return "once" if times == 1 else f"{times} times"

"""What a run of the fuzzer comes to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.fuzzing.state import State

_COLUMNS = {
    "successes": ("success",),
    "declined": ("declined",),
    "tracebacks": ("traceback", "wrong"),
    "messages": ("message",),
    "hangs": ("hang",),
    "died": ("died", "memory"),
    "leftovers": ("leftover",),
    "changed inputs": ("changed",),
}


def table(states: Sequence[State]) -> str:
    """A line a surface, and one of all together."""
    rows = [["surface", "inputs", *_COLUMNS, "inputs/s"], *(_row(state.surface, [state]) for state in states)]
    rows.append(_row("all", states))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    padded = [[cell.rjust(wide) for cell, wide in zip(row[1:], widths[1:], strict=True)] for row in rows]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *cells]) for row, cells in zip(rows, padded, strict=True))


def findings(states: Sequence[State], folder: Path) -> str:
    """Each kind of finding once, with how often it was made and where its inputs are told."""
    told = [
        f"\n{state.surface}: {where}: {held['times']} times: {folder / 'findings'}/{state.surface}-{held['cases'][0]}"
        for state in states
        for where, held in state.found.items()
    ]
    return "".join(told) + "\n" if told else ""


def _row(name: str, states: Sequence[State]) -> list[str]:
    counts = [sum(state.counts[kind] for state in states for kind in kinds) for kinds in _COLUMNS.values()]
    done, seconds = sum(state.done for state in states), sum(state.seconds for state in states)
    return [name, str(done), *map(str, counts), f"{done / seconds:.0f}" if seconds else "–"]

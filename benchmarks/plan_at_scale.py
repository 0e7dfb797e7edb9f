"""Calculated times of 1,000 canaries at 1 B, 8 B and 70 B parameters on one and eight H100s. Prints a table.

``python -m benchmarks.plan_at_scale [--times-plain 1 1.6 44]``. The times are not measured: they come from the
throughput model of ``benchmarks/machines.py``, whose rates are those of plain passes on an H100, and from
the rows that searches for nine digits took on SmolLM2-135M. Each number of ``--times-plain`` is a ratio of torch
operations per pass, as ``benchmarks.operations`` counts it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.machines import Machine, Shape, Work, rows_that_fit, run_seconds

CANARIES = 1000
CONTEXT = 64
MEMORIZED, CONTROL, EXTRACTED = 28, 1_060, 150
"""Rows of one canary: exposure of a memorized canary and of a control, and extraction of either."""
BUDGET = 20_000
LIKELY = Work(CANARIES / 2 * (MEMORIZED + CONTROL) + CANARIES * EXTRACTED, 51 + 42, CONTEXT)
WORST = Work(CANARIES * 2 * BUDGET, 400, CONTEXT)
MODELS = {
    "1 B": (Shape(1.2e9, 16, 512), Shape(1.2e9, 16, 512)),
    "8 B": (Shape(8e9, 32, 1024), Shape(8e9, 32, 1024)),
    "70 B": (Shape(70e9, 80, 1024, weight_bytes=0.5), Shape(70e9, 80, 1024, shared_by=8)),
}
"""Shapes on one GPU and on eight. One GPU holds 70 B in 4 bits; eight GPUs share 70 B, and copy smaller models."""


def shown(seconds: float | None) -> str:
    """Format a time in seconds or minutes."""
    if seconds is None:
        return "does not fit"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def table(ratios: Sequence[float]) -> list[str]:
    """Return the lines of the table in Markdown, with a likely and a worst time for each ratio."""
    heads = [f"{end}, {ratio:g} times plain" for ratio in ratios for end in ("likely", "worst case")]
    lines = [f"| parameters | GPUs | rows at once | {' | '.join(heads)} |", "|---|---:|---:|" + "---:|" * len(heads)]
    for name, shapes in MODELS.items():
        for gpus, shape in zip((1, 8), shapes, strict=True):
            machine = Machine(gpus)
            works = [replace(work, times_plain=ratio) for ratio in ratios for work in (LIKELY, WORST)]
            times = [shown(run_seconds(machine, shape, work)) for work in works]
            lines.append(f"| {name} | {gpus} | {rows_that_fit(machine, shape, LIKELY):,} | {' | '.join(times)} |")
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--times-plain", nargs="+", type=float, default=[1.0, 1.6, 44.0])
    print("\n".join(table(parser.parse_args().times_plain)))

"""Calculated times of 1,000 canaries at 1 B, 8 B and 70 B parameters on one and eight H100s. Prints a table.

``python -m benchmarks.plan_at_scale``. The times are not measured: they come from the throughput model of
``leakage_tasks/planning/machines.py``, which assumes peak rates, and from the rows that searches for nine digits took
on a character LSTM. Measured rates are in docs/speed.md.
"""

from __future__ import annotations

from leakage_tasks.planning.machines import Machine, Shape, Work, rows_that_fit, run_seconds

CANARIES = 1000
CONTEXT = 64
MEMORIZED, CONTROL, EXTRACTED = 28, 8_670, 700
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


def table() -> list[str]:
    """Return the lines of the table in Markdown."""
    lines = ["| parameters | GPUs | rows at once | likely | worst case |", "|---|---|---|---|---|"]
    for name, shapes in MODELS.items():
        for gpus, shape in zip((1, 8), shapes, strict=True):
            machine = Machine(gpus)
            times = [shown(run_seconds(machine, shape, work)) for work in (LIKELY, WORST)]
            lines.append(f"| {name} | {gpus} | {rows_that_fit(machine, shape, LIKELY):,} | {times[0]} | {times[1]} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))

"""Calculated times of 1,000 canaries at 1 B, 8 B and 70 B parameters on one and eight H100s. Prints a table.

``python -m benchmarks.plan_at_scale [--times-plain 1 1.6 44]``. The times are not measured: they come from the
throughput model of :func:`pass_seconds`, whose rates are those of plain passes on an H100, and from the rows that
searches for nine digits took on SmolLM2-135M. Each number of ``--times-plain`` is a ratio of torch
operations per pass, as ``benchmarks.operations`` counts it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

from leakage_tasks.planning.estimate import passes_of_run


@dataclass(frozen=True)
class Machine:
    """GPUs of one type; the ``…_reached`` fields are the shares of the nominal values that are reached in practice."""

    gpus: int = 1
    flops: float = 989e12
    """16-bit floating-point operations per second, dense: the value of an H100 SXM."""
    bandwidth: float = 3.35e12
    """Memory bandwidth in bytes per second."""
    memory: float = 80e9
    """Memory of a GPU in bytes."""
    flops_reached: float = 0.27
    bandwidth_reached: float = 0.6
    launch: float = 13.7e-6
    """Seconds of the host for one torch operation in eager mode, measured in a plain pass."""
    exchange: float = 30e-6
    """Seconds of one exchange between GPUs that share a model; each layer has two exchanges."""


@dataclass(frozen=True)
class Shape:
    """The size of a model: parameters, layers, KV width, bytes per weight, and the number of GPUs that share one
    copy."""

    parameters: float
    layers: int
    key_width: int
    weight_bytes: float = 2.0
    shared_by: int = 1
    operations: int = 57
    """Number of torch operations per layer in a plain pass of `transformers`: that of a Llama."""

    @property
    def key_bytes(self) -> float:
        """The size of the KV cache of one token in bytes, at 16 bits."""
        return 2 * self.layers * self.key_width * 2

    @property
    def weights(self) -> float:
        """The size of the weights in bytes."""
        return self.parameters * self.weight_bytes


@dataclass(frozen=True)
class Work:
    """The work of a run: total rows, passes of its longest single search, context tokens per row, most rows per
    pass, and torch operations per pass as a multiple of a plain pass."""

    rows: float
    depth: float
    context: int
    at_once: int = 2048
    times_plain: float = 1.0


def rows_that_fit(machine: Machine, shape: Shape, work: Work) -> int:
    """Return the rows of a forward pass: at most ``at_once``, and at most as many as 90 % of the free memory holds
    twice.

    Returns 0 if the weights alone do not fit.
    """
    free = 0.9 * machine.memory * shape.shared_by - shape.weights
    return max(0, min(work.at_once, int(free / (2 * shape.key_bytes * work.context))))


def pass_seconds(machine: Machine, shape: Shape, rows: float, context: int, times_plain: float = 1.0) -> float:
    """Return the seconds of a forward pass with one token per row.

    The host queues operations while the GPU computes, so the time is the largest of three: 2·N floating-point
    operations per token, one read of weights and KV cache, and the host's time for ``times_plain`` times the torch
    operations of a plain pass. The defaults of :class:`Machine` reproduce plain passes on an H100 within 10 %.
    """
    arithmetic = 2 * shape.parameters * rows / (machine.flops * machine.flops_reached * shape.shared_by)
    read = shape.weights + rows * context * shape.key_bytes
    memory = read / (machine.bandwidth * machine.bandwidth_reached * shape.shared_by)
    exchanges = 2 * shape.layers * machine.exchange if shape.shared_by > 1 else 0.0
    host = shape.layers * shape.operations * machine.launch * times_plain
    return max(arithmetic, memory, host) + exchanges


def run_seconds(machine: Machine, shape: Shape, work: Work) -> float | None:
    """Return the seconds of a run whose canaries are split evenly over the model copies, or None if the model does not
    fit."""
    at_once = rows_that_fit(machine, shape, work)
    if not at_once:
        return None
    copies = max(1, machine.gpus // shape.shared_by)
    rows = work.rows / copies
    passes = passes_of_run(rows, [work.depth], at_once, merged=True)
    return passes * pass_seconds(machine, shape, rows / passes, work.context, work.times_plain)


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

"""What a run would take on machines that are not at hand: a prediction from a throughput model, no measurement."""

from __future__ import annotations

from dataclasses import dataclass

from leakage_tasks.planning.passes import passes_of_run


@dataclass(frozen=True)
class Machine:
    """GPUs of one kind. What they reach is a share of what their maker names; a kernel takes ``launch`` to start."""

    gpus: int = 1
    flops: float = 989e12
    """16-bit floating-point operations a second, dense: an H100 SXM's."""
    bandwidth: float = 3.35e12
    """Bytes a second from its memory."""
    memory: float = 80e9
    """Bytes of a GPU."""
    flops_reached: float = 0.4
    bandwidth_reached: float = 0.6
    launch: float = 8e-6
    """Seconds from one kernel to the next, in eager mode."""
    exchange: float = 30e-6
    """Seconds of one exchange between GPUs that share a model; there are two a layer."""


@dataclass(frozen=True)
class Shape:
    """A model: its parameters, layers, width of keys and values, bytes of a weight; how many GPUs share one copy."""

    parameters: float
    layers: int
    key_width: int
    weight_bytes: float = 2.0
    shared_by: int = 1
    kernels: int = 15
    """Kernels a layer."""

    @property
    def key_bytes(self) -> float:
        """Keys and values of one token, in 16 bits."""
        return 2 * self.layers * self.key_width * 2

    @property
    def weights(self) -> float:
        """Bytes of the weights."""
        return self.parameters * self.weight_bytes


@dataclass(frozen=True)
class Work:
    """A run: rows in all, passes of its longest search alone, tokens before a row, rows that a pass may have."""

    rows: float
    depth: float
    context: int
    at_once: int = 2048


def rows_that_fit(machine: Machine, shape: Shape, work: Work) -> int:
    """Rows of a pass: what is wanted, or what nine tenths of the memory beside the weights hold twice over.

    0 where not even the weights fit.
    """
    free = 0.9 * machine.memory * shape.shared_by - shape.weights
    return max(0, min(work.at_once, int(free / (2 * shape.key_bytes * work.context))))


def pass_seconds(machine: Machine, shape: Shape, rows: float, context: int) -> float:
    """One pass of a token a row: 2·N operations a token, or weights and keys once through memory, whichever is longer;
    and what starting the kernels takes.
    """
    arithmetic = 2 * shape.parameters * rows / (machine.flops * machine.flops_reached * shape.shared_by)
    read = shape.weights + rows * context * shape.key_bytes
    memory = read / (machine.bandwidth * machine.bandwidth_reached * shape.shared_by)
    exchanges = 2 * shape.layers * machine.exchange if shape.shared_by > 1 else 0.0
    return max(arithmetic, memory) + shape.layers * shape.kernels * machine.launch + exchanges


def run_seconds(machine: Machine, shape: Shape, work: Work) -> float | None:
    """A whole run, its canaries dealt evenly to the copies of the model; None where the model does not fit."""
    at_once = rows_that_fit(machine, shape, work)
    if not at_once:
        return None
    copies = max(1, machine.gpus // shape.shared_by)
    rows = work.rows / copies
    passes = passes_of_run(rows, [work.depth], at_once, merged=True)
    return passes * pass_seconds(machine, shape, rows / passes, work.context)

"""Time of a run on a GPU that computes the next pass while the host works, on a simulated clock. Prints a table.

``python -m benchmarks.overlap [--canaries 1000] [--tasks canary_exposure]`` attacks canaries of nine digits on a small
random Llama as ``benchmarks.host_work`` does. The host's time is measured on this CPU, without the calls of the model.
Instead of these, the clock counts a pass of a model of 1 B parameters on an H100: the host launches it for ``--launch``
milliseconds, while the device begins to compute it, for ``--full`` milliseconds per 2,048 rows. The host waits where it
reads the costs (*waited*). *in turn* is the time if it does so before it does anything else; *overlapped* if it
launches the next full pass of waiting rows first. The shares are of the rows per second of full plain passes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor

from benchmarks.host_work import noted
from benchmarks.operations import ATTACKS, canaries_of, run_options
from benchmarks.small_models import fix_rows, harness_model
from leakage_tasks.attacks import run_attack
from leakage_tasks.targets.devices import HostCopy
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.targets.pass_rows import PassRows

FULL_ROWS = 2048


class Clock:
    """The host's processor time without the model's, plus what it would spend on launches and on waiting."""

    def __init__(self, launch: float, a_row: float) -> None:
        self._launch, self._a_row = launch, a_row
        self._ahead = -time.process_time()
        self.device_free = self.waited = self.seconds = 0.0
        self.rows = self.passes = 0

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        return time.process_time() + self._ahead

    def launch(self, rows: int, model_seconds: float) -> None:
        """Count a pass, whose call took ``model_seconds`` of this process."""
        self._ahead += self._launch - model_seconds
        # Small passes are computed while the host still launches them.
        begun = max(self.device_free, self.now - self._launch)
        self.device_free = max(self.now, begun + rows * self._a_row)
        self.rows, self.passes = self.rows + rows, self.passes + 1

    def wait(self, until: float) -> None:
        """Let the host wait until the device has computed something."""
        seconds = max(0.0, until - self.now)
        self._ahead, self.waited = self._ahead + seconds, self.waited + seconds


@contextmanager
def simulated(model: torch.nn.Module, overlaps: bool, clock: Clock) -> Iterator[None]:
    """Run the block on a simulated device."""

    class LateCopy(HostCopy):
        """A copy to the host that arrives once the device has computed the pass."""

        def __init__(self, tensor: Tensor) -> None:
            super().__init__(tensor)
            self._until = clock.device_free

        def wait(self) -> None:
            clock.wait(self._until)

    with (
        noted(model, clock.launch),
        mock.patch.object(PassRows, "overlaps", overlaps),
        mock.patch("leakage_tasks.targets.causal.reader.HostCopy", LateCopy),
    ):
        yield


def run(task: str, number: int, overlaps: bool, options: argparse.Namespace) -> Clock:
    """Attack ``number`` canaries on the simulated device."""
    lm = harness_model("llama", options.rows, "cpu")
    target, (attack, goal) = as_target(lm), ATTACKS[task]
    target.pass_rows.batch_size = None
    fix_rows(target, options.rows)
    # This run verifies the batching strategies of the model.
    run_attack(attack, target, canaries_of(2, source=False, seed=2), goal=goal, budget=options.budget)
    canaries = canaries_of(number, source=False)
    clock = Clock(options.launch / 1e3, options.full / 1e3 / FULL_ROWS)
    with simulated(lm.model, overlaps, clock):
        run_attack(attack, target, canaries, goal=goal, budget=options.budget)
    clock.seconds = clock.now
    return clock


HEAD = (
    "| task | canaries | rows | passes | seconds in turn | waited | share | seconds overlapped | waited | share |\n"
    "|---|" + "---:|" * 9
)


def main() -> None:
    """Print a row for each task and number of canaries."""
    parser = run_options(__doc__)
    parser.add_argument("--launch", type=float, default=12.0, help="milliseconds to launch a pass")
    parser.add_argument("--full", type=float, default=17.6, help="milliseconds to compute 2,048 rows")
    options = parser.parse_args()
    print(HEAD, flush=True)
    for task in options.tasks:
        for number in options.canaries:
            cells = [task, f"{number:,}"]
            for overlaps in (False, True):
                clock = run(task, number, overlaps, options)
                share = clock.rows * options.full / 1e3 / FULL_ROWS / clock.seconds
                cells += [] if overlaps else [f"{clock.rows:,}", f"{clock.passes:,}"]
                cells += [f"{clock.seconds:.2f}", f"{clock.waited:.2f}", f"{share:.2f}"]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()

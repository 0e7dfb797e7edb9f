"""Processor time that a run spends outside the model, per row that the model reads. Prints a table.

``python -m benchmarks.host_work [--canaries 100 1000] [--learned 0 0.5]`` attacks canaries of nine digits on a small
random Llama, on one thread. *host* is the processor time of the whole run without that of the calls of the model,
divided by the rows that the model read. A GPU waits for this work if it takes longer than the pass.

To train a model on 1,000 canaries takes too long. Instead, for the share of learned canaries, the output layer of the
model is changed so that few fillings are likely, and these canaries get the guess of a beam search as their secret.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from benchmarks.operations import ATTACKS, canaries_of, run_options
from benchmarks.small_models import fix_rows, harness_model
from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.targets.harness.target import as_target

SHARPNESS, UNLIKELY = 60.0, -30.0
"""Factor of the output layer, and bias of characters that follow no digit, for a model that has learned canaries."""


@dataclass
class Time:
    """Processor seconds of a run and of the calls of the model, the passes and the rows read."""

    run: float = 0.0
    model: float = 0.0
    passes: int = 0
    rows: int = 0

    @property
    def host_microseconds(self) -> float:
        """Microseconds outside the model per row."""
        return (self.run - self.model) / max(self.rows, 1) * 1e6


@contextmanager
def noted(model: torch.nn.Module, note: Callable[[int, float], None]) -> Iterator[None]:
    """Call ``note`` with the rows and the processor seconds of each call of ``model`` in the block."""
    forward = model.forward

    @functools.wraps(forward)  # The engine reads the signature.
    def counted(*arguments: Any, **named: Any) -> Any:
        started = time.process_time()
        out = forward(*arguments, **named)
        rows = len(named["input_ids"] if "input_ids" in named else arguments[0])
        note(rows, time.process_time() - started)
        return out

    with mock.patch.object(model, "forward", counted):
        yield


@contextmanager
def timed(model: torch.nn.Module) -> Iterator[Time]:
    """Time the block and the calls of ``model`` in it."""
    spent = Time()

    def note(rows: int, seconds: float) -> None:
        spent.model += seconds
        spent.passes, spent.rows = spent.passes + 1, spent.rows + rows

    with noted(model, note):
        started = time.process_time()
        yield spent
        spent.run = time.process_time() - started


def run_timed(task: str, number: int, learned: float, options: argparse.Namespace) -> Time:
    """Attack ``number`` canaries, of which the model has learned a share.

    Args:
        task: A name in :data:`benchmarks.operations.ATTACKS`.
        number: Number of canaries.
        learned: Share of the canaries whose secret is likely.
        options: ``budget``, the maximum number of sequences per canary, and ``rows`` of a full pass.
    """
    lm = harness_model("llama", options.rows, "cpu")
    if learned:
        sharpen(lm)
    target, limits = as_target(lm), {"budget": options.budget}
    fix_rows(target, options.rows)
    canaries = canaries_of(number, source=False)
    known = round(learned * number)
    canaries = [*(with_likely_secrets(target, canaries[:known]) if known else ()), *canaries[known:]]
    attack, goal = ATTACKS[task]
    # This run verifies the batching strategies of the model.
    run_attack(attack, target, canaries_of(2, source=False, seed=2), goal=goal, **limits)
    with timed(lm.model) as spent:
        run_attack(attack, target, canaries, goal=goal, **limits)
    return spent


def sharpen(lm: Any) -> None:
    """Make one of the digits or the full stop much likelier than all other tokens after any text."""
    bias = torch.full([lm.model.config.vocab_size], UNLIKELY)
    bias[lm.tokenizer.convert_tokens_to_ids([*"0123456789."])] = 0.0
    lm.model.lm_head.weight.data *= SHARPNESS
    lm.model.lm_head.bias = torch.nn.Parameter(bias)


def with_likely_secrets(target: Any, canaries: list[Canary]) -> list[Canary]:
    """Replace each canary's secret with the best guess of a beam search."""
    found = run_attack("beam", target, canaries, goal="extraction")
    return [
        dataclasses.replace(canary, secret=finding.guesses[0].filling)
        for canary, finding in zip(canaries, found, strict=True)
    ]


def line(task: str, number: int, learned: float, spent: Time) -> str:
    """Return a row of the table in Markdown."""
    each = f"{spent.rows / max(spent.passes, 1):,.0f}"
    cells = [task, f"{number:,}", f"{learned:.0%}", f"{spent.rows:,}", each, f"{spent.run:.1f}", f"{spent.model:.1f}"]
    return f"| {' | '.join([*cells, f'{spent.host_microseconds:.1f}'])} |"


HEAD = (
    "| task | canaries | learned | rows | rows per pass | CPU seconds | in the model | host, µs per row |\n|---|"
    + "---:|" * 7
)


def main() -> None:
    """Print a row for each task, number of canaries and share of learned canaries."""
    parser = run_options(__doc__)
    parser.add_argument("--learned", nargs="+", type=float, default=[0.0, 0.5], metavar="SHARE")
    options = parser.parse_args()
    print(HEAD, flush=True)
    for task in options.tasks:
        for number in options.canaries:
            for learned in options.learned:
                print(line(task, number, learned, run_timed(task, number, learned, options)), flush=True)


if __name__ == "__main__":
    for name in ("lm_eval", "transformers"):
        logging.getLogger(name).setLevel(logging.ERROR)
    torch.set_num_threads(1)
    main()

"""Attacks on many canaries in shared forward passes, compared with one canary at a time.

``python -m benchmarks.together [--canaries 40] [--taught 0.5] [--rows 512] [--shape gpt2-tiny]`` makes a model
(``gpt2-tiny``, ``gpt2-small``, ``gemma3`` with a sliding window, ``lstm``), trains it on a share of the canaries and
attacks all canaries in both ways. The other shapes (classifier, masked, tagger, t5, bart, harness) are in
``benchmarks.together_shapes`` and are not trained. Prints passes, rows, seconds and the differences of results.

*least* is the minimum number of passes: the longest chain of one canary, or all rows divided by the rows of a pass. *in
order* is a higher lower bound that respects the order of each canary's requests: rows that a canary requests after its
first n requests cannot be in the first n passes, so for every n the total is at least n plus the passes that the
remaining rows fill. *once* counts the passes that examine the model once per run.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.small_models import ENDS, fix_rows, random_model
from benchmarks.together_shapes import OTHER, Setup
from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets import CausalTarget, served_batches
from leakage_tasks.targets.batching import PendingRequest

SHAPES: dict[str, dict[str, Any]] = {
    "gpt2-tiny": {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, **ENDS},
    "gpt2-small": {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 128, **ENDS},
    "gemma3": {
        "model_type": "gemma3_text",
        "hidden_size": 64,
        "intermediate_size": 192,
        "head_dim": 16,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "sliding_window": 16,
        "max_position_embeddings": 128,
    },
    "lstm": {"model_type": "char_lstm"},
}
SEED = 3
FEW = 4
"""Canaries that are attacked first, so that checks that run once per model are done."""


@dataclass
class Measured:
    """Results and cost of an attack on all canaries."""

    findings: list[Finding]
    passes: int
    rows: int
    depth: int
    """Passes of the group with the most passes."""
    seconds: float
    """Wall-clock time."""
    once: int
    """Additional passes of the first attack, compared with a repetition."""
    request_rows: list[list[int]]
    """Rows of each request of each group, in order."""


def main() -> None:
    """Make the model, run the attacks in both ways and print the table."""
    options = _options()
    torch.manual_seed(SEED)
    made = OTHER[options.shape](options.canaries, options.rows) if options.shape in OTHER else _taught(options)
    threads = torch.get_num_threads()
    print(f"{options.shape}, {len(made.canaries)} canaries; {made.rows} rows a pass; {threads} threads")
    print("| attack | | passes | rows | least passes | times the least | in order | times that | once | seconds |")
    print("|---|---|" + "---:|" * 8)
    for attack, goal in made.attacks:
        both = [[made.canaries], [[canary] for canary in made.canaries]]
        met, alone = (_measured(made, groups, attack, goal, options.budget) for groups in both)
        minimum = max(alone.depth, alone.rows / made.rows)
        ordered = max(minimum, least_in_order(alone.request_rows, made.rows))
        for name, one in (("shared", met), ("one by one", alone)):
            shares = f"{minimum:.1f} | {one.passes / minimum:.2f} | {ordered:.1f} | {one.passes / ordered:.2f}"
            counts = f"{one.passes} | {one.rows} | {shares} | {one.once}"
            print(f"| {attack} | {name} | {counts} | {one.seconds:.1f} |")
        print(_compared(attack, met, alone))


def least_in_order(request_rows: Sequence[Sequence[int]], at_once: int) -> float:
    """Return a lower bound of passes for all requests, in order per canary.

    Args:
        request_rows: Rows of each request of each canary, in order.
        at_once: Rows of a pass.
    """
    longest = max(map(len, request_rows))
    return max(first + sum(sum(rows[first:]) for rows in request_rows) / at_once for first in range(longest + 1))


def _taught(options: argparse.Namespace) -> Setup:
    """Train a causal model on a share of the canaries."""
    taught = round(options.canaries * options.taught)
    template = f"The code of {{unique}} is {{digits:{options.digits}}}."
    canaries = make_canaries(template, taught, controls=options.canaries - taught)
    learnt = [canary.text for canary in canaries if canary.planted]
    tokenizer = char_tokenizer(sorted({*"0123456789".join(canary.text for canary in canaries)}))
    model = random_model(**SHAPES[options.shape], vocab_size=len(tokenizer))
    if learnt:
        _teach(model, tokenizer, learnt, options.epochs)

    def fresh() -> CausalTarget:
        target = CausalTarget(model, tokenizer)
        fix_rows(target, options.rows)
        return target

    attacks = [("exposure", "exposure"), ("shortest-path", "extraction")]
    return Setup(canaries, fresh, [model], attacks, options.rows)


def _compared(attack: str, met: Measured, alone: Measured) -> str:
    pairs = list(zip(met.findings, alone.findings, strict=True))
    apart = max(abs(np.log2(one.rank or 1) - np.log2(other.rank or 1)) for one, other in pairs)
    same = all(
        [guess.filling for guess in one.guesses] == [guess.filling for guess in two.guesses] for one, two in pairs
    )
    longer, rows = alone.seconds / met.seconds, met.rows / alone.rows
    return (
        f"{attack}: {rows:.4f} times the rows, {longer:.2f} times as fast as one by one, ranks differ by at "
        f"most {apart:.1e} bits, guesses are {'equal' if same else 'NOT EQUAL'}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    for name, default in (("canaries", 40), ("digits", 6), ("rows", 512), ("epochs", 150), ("budget", 20_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--taught", type=float, default=0.5, help="share of the canaries that the model knows")
    parser.add_argument("--shape", choices=[*SHAPES, *OTHER], default="gpt2-tiny")
    return parser.parse_args()


def _teach(model: Any, tokenizer: Any, texts: Sequence[str], epochs: int) -> None:
    rows = [torch.tensor(row) for row in CausalTarget(model, tokenizer).token_rows(texts)]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0)
    labels = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100)
    rate = 3e-4 if sum(weights.numel() for weights in model.parameters()) > 10**7 else 3e-3
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    model.train()
    for _ in range(epochs):
        optimizer.zero_grad()
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
    model.eval()


def _measured(made: Setup, groups: Sequence[Sequence[Canary]], attack: str, goal: Any, budget: int) -> Measured:
    """Run the attack on each group and measure it."""
    target = made.fresh()
    with metered(made.modules) as counted:

        def passes_of(group: Sequence[Canary]) -> tuple[list[Finding], int]:
            before = counted.passes
            return run_attack(attack, target, group, goal=goal, budget=budget), counted.passes - before

        once = passes_of(made.canaries[:FEW])[1] - passes_of(made.canaries[:FEW])[1]
        counted.passes = counted.rows = 0
        findings, depth, request_rows, started = [], 0, [], time.perf_counter()
        for group in groups:
            with _request_rows() as rows:
                group_findings, passes = passes_of(group)
            findings, depth = findings + group_findings, max(depth, passes)
            request_rows.append(rows)
        return Measured(
            findings, counted.passes, counted.rows, depth, time.perf_counter() - started, once, request_rows
        )


@contextlib.contextmanager
def _request_rows() -> Iterator[list[int]]:
    """Record the rows of requests that are served together in the block, in order."""
    choose, rows = served_batches.rows_to_serve, list[int]()

    def noted(requests: Sequence[PendingRequest]) -> list[int]:
        now = choose(requests)
        rows.append(sum(now))
        return now

    with mock.patch.object(served_batches, "rows_to_serve", noted):
        yield rows


if __name__ == "__main__":
    main()

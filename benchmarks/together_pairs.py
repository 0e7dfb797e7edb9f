"""Suffix extraction on many pairs in shared forward passes, compared with one pair at a time.

``python -m benchmarks.together_pairs [--pairs 200] [--draws 32] [--rows 256] [--sharpness 8] [--shape gpt2|lstm]``
makes a model with random weights (the sharper, the more equal draws) and attacks all pairs in both ways. Prints passes,
rows, seconds and the differences of results.

The minimum number of passes is the longest chain of one pair, or all rows divided by the rows of a pass. A higher lower
bound respects the order of passes: rows that need d earlier passes cannot be in the first d passes, so for every d the
total is at least d plus the passes that these rows fill. It is printed if all draws of a pair fit into one pass.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.together import least_in_order
from leakage_tasks.attacks.suffix.attack import attack_pairs
from leakage_tasks.attacks.suffix.finding import HEADLINE, SuffixFinding
from leakage_tasks.attacks.suffix.request import SuffixRequest
from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.causal import beginnings
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.target import CausalSuffixes
from tests.oracles import merging, tiny_gpt2

PREFIX, SUFFIX, SEED = 12, 16, 0


@dataclass(frozen=True)
class Measured:
    """Results and cost of an attack on all pairs; ``chains`` are the rows of each pass of each group."""

    findings: list[SuffixFinding]
    chains: list[list[int]]
    seconds: float

    @property
    def passes(self) -> int:
        """Total number of passes."""
        return sum(map(len, self.chains))

    @property
    def rows(self) -> int:
        """Total number of rows."""
        return sum(map(sum, self.chains))

    @property
    def depth(self) -> int:
        """Passes of the group with the most passes."""
        return max(map(len, self.chains))


def main() -> None:
    """Make the model, attack the pairs in both ways and print the table."""
    options = _options()
    model = _model(options.shape, options.sharpness)
    pairs = _pairs(options.pairs)
    met, alone = (_measured(options, model, groups) for groups in ([pairs], [[pair] for pair in pairs]))
    least = max(alone.depth, alone.rows / options.rows)
    share = sum(finding.nodes for finding in met.findings) / (len(pairs) * options.draws * SUFFIX)
    print(f"{options.shape}, {len(pairs)} pairs, {options.draws} draws, {share:.3f} of their tokens distinct")
    print("| | passes | rows | least passes | of the least | CPU seconds |\n|---|---:|---:|---:|---:|---:|")
    for name, one in (("shared", met), ("one by one", alone)):
        print(f"| {name} | {one.passes} | {one.rows} | {least:.0f} | {one.passes / least:.2f} | {one.seconds:.1f} |")
    # With more draws, a single pair needs several passes per step that do not depend on each other.
    if options.draws <= options.rows:
        ordered = least_in_order(alone.chains, options.rows)
        print(
            f"no order takes fewer than {ordered:.1f} passes; shared passes are {met.passes / ordered:.2f} times that"
        )
    print(f"{met.rows / alone.rows:.4f} times the rows; {_compared(met.findings, alone.findings)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    for name, default in (("pairs", 200), ("draws", 32), ("rows", 256)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--sharpness", type=float, default=8.0)
    parser.add_argument("--shape", choices=["gpt2", "lstm"], default="gpt2")
    return parser.parse_args()


def _model(shape: str, sharpness: float) -> Any:
    if shape == "gpt2":
        return tiny_gpt2(merging(), sharpness=sharpness)
    torch.manual_seed(SEED)
    model = CharLSTMForCausalLM(CharLSTMConfig(vocab_size=len(merging()), hidden_size=16, num_layers=2)).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(sharpness)
    return model


def _pairs(number: int) -> list[Pair]:
    stream = random.Random(SEED)
    rows = [[stream.randrange(4, len(merging())) for _ in range(PREFIX + SUFFIX)] for _ in range(number)]
    return [Pair(index, tuple(row[:PREFIX]), tuple(row[PREFIX:])) for index, row in enumerate(rows)]


def _measured(options: argparse.Namespace, model: Any, groups: Sequence[Sequence[Pair]]) -> Measured:
    target = CausalSuffixes(CausalTarget(model, merging()))
    # As on a GPU: a fixed maximum of rows per pass, also for whole texts, and high cost per pass.
    target.sampler.limit.most, target.sampler.tokens = options.rows, 1 << 30
    beginnings.PASS_ON_CPU = beginnings.PASS_ELSEWHERE
    request = SuffixRequest(samples=options.draws)
    # Run the checks of a new model first, also with full passes, so that they count for neither side.
    flat = DecodingConfig(top_p=1.0, temperature=10.0)
    attack_pairs(target, groups[0][:1], SuffixRequest(scheme=flat, samples=2 * options.rows))
    findings, chains, started = [], [], time.process_time()

    def note(module: Any, arguments: Any, named: dict[str, Any]) -> None:
        chains[-1].append(len(named["input_ids"]))

    hook = model.register_forward_pre_hook(note, with_kwargs=True)
    for group in groups:
        chains.append([])
        findings += attack_pairs(target, group, request)
    hook.remove()
    return Measured(findings, chains, time.process_time() - started)


def _compared(some: Sequence[SuffixFinding], others: Sequence[SuffixFinding]) -> str:
    pairs = [(one.views[HEADLINE], other.views[HEADLINE]) for one, other in zip(some, others, strict=True)]
    apart = max(abs(one.own_bits - other.own_bits) for one, other in pairs)
    surest = [(one.choices["calibrated"], other.choices["calibrated"]) for one, other in pairs]
    sure = max(abs(one.confidence - other.confidence) for one, other in surest)
    same = all(
        (one.nodes, one.model_calls) == (two.nodes, two.model_calls) for one, two in zip(some, others, strict=True)
    )
    equal = same and all(one.distinct == other.distinct for one, other in pairs)
    return f"costs {apart:.1e} bits, confidences {sure:.1e} apart, draws {'equal' if equal else 'NOT EQUAL'}"


if __name__ == "__main__":
    main()

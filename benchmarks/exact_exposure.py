"""Exact exposure over all four-digit codes, compared with the harness' own scoring. Prints JSON.

A model of GPT-2 small's shape (random weights, fixed seed) with GPT-2's tokenizer ranks one code among all 10,000,
without pruning. Ours: the package's search, which scores every distinct partial filling once. Theirs: 10,000
``loglikelihood`` requests ``("", text)`` through the harness' ``HFLM`` with its cache of logits, at the best of several
batch sizes. Both alternate in one process with PyTorch's default threads; seconds are the minimum over the rounds.

Both use the harness' batch size. ``allowed`` is the ratio of the tokens that both have to read, without padding;
``reached`` is the speed-up divided by it. Ours is measured twice: for the ``first`` canary of a run, which verifies the
shared forward pass and tokenizes the codes, and for a ``further`` canary, which reuses both. Theirs only reuses the
cache of logits within one canary. Log-perplexities must agree to 1e-3 bits on every code, and ranks must be equal. The
tokenizer's files are in ``gpt2/`` of the folder LEAKAGE_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leakage_tasks.attacks.causal.nodes import Children, Nodes
from leakage_tasks.attacks.causal.rank_count import count_exactly
from leakage_tasks.attacks.causal.search_tree import SearchTree, mask_of, within
from leakage_tasks.attacks.causal.secret_path import RankedSecret
from leakage_tasks.canaries.spaces import Space, parse_template
from leakage_tasks.targets.harness.fast_path import causal_target
from leakage_tasks.targets.harness.target import HarnessTarget

TEMPLATES = ("My pin code is {digits:4}.", "My pin code is {digits:4}")
SECRET = tuple("2812")
BATCH_SIZES = (16, 64, 256, 512)
TRIAL = 600
AGREE_BITS = 1e-3
WANTED = 0.9


@dataclass
class Side:
    """Results of one side: rank, log-perplexities of all codes in order (bits), tokens with padding, seconds."""

    rank: int
    costs: np.ndarray
    tokens: int
    seconds: float


class Recording(SearchTree):
    """A search tree that records every filling."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.endings: list[tuple[Nodes, Children]] = []

    def children(self, nodes: Nodes, bound: float = np.inf) -> Children:
        """Return the children, as in :class:`SearchTree`, and record the complete fillings among them."""
        children = super().children(nodes, bound)
        self.endings.append((nodes, children[self.paths.ends(children.states)]))
        return children


class Tokens:
    """A counter of the tokens that a model reads."""

    def __init__(self, model: Any) -> None:
        self.read = 0
        model.register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, module: Any, arguments: Sequence[Any], named: dict[str, Any]) -> None:
        self.read += (arguments[0] if arguments else named["input_ids"]).numel()


def ours(lm: Any, space: Space, counter: Tokens) -> tuple[Side, Side]:
    """Rank with the package's search without a bound, as a run's first canary and as a further canary."""
    start = time.perf_counter()
    target = causal_target(lm)
    return _searched(target, space, counter, start), _searched(target, space, counter, time.perf_counter())


def _searched(target: Any, space: Space, counter: Tokens, start: float) -> Side:
    """Run one search that scores every filling exactly once; time counts from ``start``."""
    counter.read = 0
    explorer = Recording(target, space)
    secret = explorer.paths.path(SECRET)
    count_exactly(RankedSecret(explorer, secret, np.inf), 2 * space.size)
    costs = np.concatenate([ending.costs for _, ending in explorer.endings])
    paths = [explorer.child_paths(nodes, ending) for nodes, ending in explorer.endings]
    secret_cost = costs[np.concatenate([mask_of(own, secret) for own in paths])]
    rank = int((costs <= within(secret_cost.item())).sum())
    seconds = time.perf_counter() - start
    states = [ending.states for _, ending in explorer.endings]
    spelled = [filling for pair in zip(states, paths, strict=True) for filling in explorer.paths.fillings(*pair)]
    ordered = np.full(space.size, np.nan)
    ordered[[space.index(filling) for (filling,) in spelled]] = costs + explorer.prefix_cost
    return Side(rank, ordered, counter.read, seconds)


def theirs(lm: Any, space: Space, counter: Tokens) -> Side:
    """Rank with one request per code."""
    counter.read, start = 0, time.perf_counter()
    costs = HarnessTarget(lm).log_perplexity([space.fill(filling) for filling in space.enumerate()])
    rank = int((costs <= within(costs[space.index(SECRET)])).sum())
    return Side(rank, costs, counter.read, time.perf_counter() - start)


def needed(lm: Any, space: Space) -> int:
    """Count the tokens of distinct inputs of the requests: the prefix token, and all tokens but the last."""
    texts = [space.fill(filling) for filling in space.enumerate()]
    inputs = {tuple(tokens[:-1]) for tokens in lm.tokenizer(texts, add_special_tokens=False)["input_ids"]}
    return sum(1 + len(tokens) for tokens in inputs)


def best_batch_size(lm: Any, space: Space) -> tuple[int, dict[int, float]]:
    """Return the harness' fastest batch size on a sample of the codes, and the seconds by batch size."""
    texts = [space.fill(filling) for filling in space.sample(TRIAL, "trial")]
    seconds = {}
    for size in BATCH_SIZES:
        lm.batch_size_per_gpu = size
        start = time.perf_counter()
        HarnessTarget(lm).log_perplexity(texts)
        seconds[size] = time.perf_counter() - start
    return min(seconds, key=seconds.__getitem__), seconds


def compare(lm: Any, template: str, counter: Tokens, rounds: int) -> dict[str, Any]:
    """Let both sides rank the secret ``rounds`` times, alternating."""
    space = parse_template(template)
    lm.batch_size_per_gpu, trials = best_batch_size(lm, space)
    turns = [(*ours(lm, space, counter), theirs(lm, space, counter)) for _ in range(rounds)]
    first, further, requests = zip(*turns, strict=True)
    right, wanted = _fastest(requests), needed(lm, space)
    return {
        "template": template,
        "rank": right.rank,
        "ours": {"first": _against(first, right, wanted), "further": _against(further, right, wanted)},
        "theirs": {
            "seconds": right.seconds,
            "tokens": wanted,
            "tokens_with_padding": right.tokens,
            "rounds": [side.seconds for side in requests],
        },
        "batch_size": lm.batch_size_per_gpu,
        "batch_size_trials": trials,
    }


def _fastest(rounds: Sequence[Side]) -> Side:
    return min(rounds, key=lambda side: side.seconds)


def _against(rounds: Sequence[Side], right: Side, wanted: int) -> dict[str, Any]:
    """Return our side's seconds and tokens, and their ratio to the harness'.

    Raises AssertionError if costs or ranks differ.
    """
    left = _fastest(rounds)
    difference = float(np.abs(left.costs - right.costs).max())
    assert difference <= AGREE_BITS, f"log-perplexities differ by {difference} bits"
    assert left.rank == right.rank, f"ranks differ: {left.rank} and {right.rank}"
    speed, allowed = right.seconds / left.seconds, wanted / left.tokens
    return {
        "seconds": left.seconds,
        "tokens": left.tokens,
        "rounds": [side.seconds for side in rounds],
        "largest_difference_bits": difference,
        "speed_ratio": speed,
        "allowed": allowed,
        "reached": speed / allowed,
        "met": speed / allowed >= WANTED,
    }


def load(folder: Path) -> Any:
    """Load a model of GPT-2 small's shape with its tokenizer into the harness."""
    import torch
    from lm_eval.models.huggingface import HFLM
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast

    torch.manual_seed(0)
    tokenizer = GPT2TokenizerFast.from_pretrained(folder, trust_remote_code=False)
    return HFLM(pretrained=GPT2LMHeadModel(GPT2Config()).eval(), tokenizer=tokenizer, device="cpu")


def main() -> None:
    """Measure each template and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=1, help="rounds; five times as many for templates without a full stop"
    )
    parser.add_argument("--templates", nargs="+", default=TEMPLATES)
    arguments = parser.parse_args()
    data = os.environ.get("LEAKAGE_DATA")
    if data is None or not (Path(data) / "gpt2" / "vocab.json").is_file():
        print("skipped: no tokenizer; set LEAKAGE_DATA to a folder that holds gpt2/", file=sys.stderr)
        return
    lm = load(Path(data) / "gpt2")
    counter = Tokens(lm.model)
    rounds = [arguments.rounds * (1 if template.endswith(".") else 5) for template in arguments.templates]
    results = [
        compare(lm, template, counter, number) for template, number in zip(arguments.templates, rounds, strict=True)
    ]
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()

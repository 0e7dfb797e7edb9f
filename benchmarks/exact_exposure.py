"""Exact exposure over all four-digit codes against the harness' own scoring of them: prints JSON.

A model of GPT-2 small's shape (random weights, seeded) with GPT-2's tokenizer ranks one code among all 10,000,
without pruning. Ours: the package's search, which reads every distinct partial filling once. Theirs: 10,000
``loglikelihood`` requests ``("", text)`` through the harness' ``HFLM``, logits cache on, at the best of several
batch sizes. The two take turns in one process with PyTorch's default threads; seconds are the least of the rounds.

Both run at the harness' batch size. ``allowed`` is the ratio of the tokens the two sides have to read (padding,
which the harness reads as well, does not count), ``reached`` the share of it that the speed ratio comes to. Ours is
measured twice: for the ``first`` canary of a run, which proves the shared pass and lays out the codes' tokens, and for
a ``further`` one, which finds both done. Theirs has nothing to keep but its cache of logits, within one canary.
Log-perplexities must agree to 1e-3 bits on every code, and ranks must be equal. The tokenizer's files are read from
``gpt2/`` in the folder LEAKAGE_DATA.
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

os.environ.setdefault("HF_HUB_OFFLINE", "1")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from leakage_tasks.attacks.causal.exposure import count_exactly  # noqa: E402
from leakage_tasks.attacks.causal.search_tree import Children, Nodes, SearchTree, mask_of, within  # noqa: E402
from leakage_tasks.canaries.spaces import Space, parse_template  # noqa: E402
from leakage_tasks.targets.harness.fast_path import causal_target  # noqa: E402
from leakage_tasks.targets.harness.target import HarnessTarget  # noqa: E402

TEMPLATES = ("My pin code is {digits:4}.", "My pin code is {digits:4}")
SECRET = tuple("2812")
BATCH_SIZES = (16, 64, 256, 512)
TRIAL = 600
AGREE_BITS = 1e-3
WANTED = 0.9


@dataclass
class Side:
    """What one side found: rank, log-perplexities of all codes in order (bits), tokens read with padding, seconds."""

    rank: int
    costs: np.ndarray
    tokens: int
    seconds: float


class Recording(SearchTree):
    """An explorer that notes every filling it comes to."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.found: list[tuple[Nodes, Children]] = []

    def children(self, nodes: Nodes, bound: float = np.inf) -> Children:
        """See :class:`SearchTree`."""
        children = super().children(nodes, bound)
        self.found.append((nodes, children[self.paths.ends(children.states)]))
        return children


class Tokens:
    """Counts the tokens a model reads."""

    def __init__(self, model: Any) -> None:
        self.read = 0
        model.register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, module: Any, arguments: Sequence[Any], named: dict[str, Any]) -> None:
        self.read += (arguments[0] if arguments else named["input_ids"]).numel()


def ours(lm: Any, space: Space, counter: Tokens) -> tuple[Side, Side]:
    """Rank by the package's search with no bound, as a run's first canary and as a further one."""
    start = time.perf_counter()
    target = causal_target(lm)
    return _searched(target, space, counter, start), _searched(target, space, counter, time.perf_counter())


def _searched(target: Any, space: Space, counter: Tokens, start: float) -> Side:
    """One search, since ``start``; every filling is read, and none twice."""
    counter.read = 0
    explorer = Recording(target, space)
    secret = explorer.paths.path(SECRET)
    count_exactly(explorer, secret, np.inf, 2 * space.size)
    costs = np.concatenate([ending.costs for _, ending in explorer.found])
    own = np.concatenate([ending.costs[_at(explorer, nodes, ending, secret)] for nodes, ending in explorer.found])
    rank = int((costs <= within(own.item())).sum())
    seconds = time.perf_counter() - start
    paths = [explorer.child_paths(nodes, ending) for nodes, ending in explorer.found]
    states = [ending.states for _, ending in explorer.found]
    spelled = [filling for pair in zip(states, paths, strict=True) for filling in explorer.paths.fillings(*pair)]
    ordered = np.full(space.size, np.nan)
    ordered[[space.index(filling) for (filling,) in spelled]] = costs + explorer.prefix_cost
    return Side(rank, ordered, counter.read, seconds)


def _at(explorer: SearchTree, nodes: Nodes, ending: Children, secret: Sequence[int]) -> np.ndarray:
    return mask_of(explorer.child_paths(nodes, ending), secret)


def theirs(lm: Any, space: Space, counter: Tokens) -> Side:
    """Rank by one request a code."""
    counter.read, start = 0, time.perf_counter()
    costs = HarnessTarget(lm).log_perplexity([space.fill(filling) for filling in space.enumerate()])
    rank = int((costs <= within(costs[space.index(SECRET)])).sum())
    return Side(rank, costs, counter.read, time.perf_counter() - start)


def needed(lm: Any, space: Space) -> int:
    """Tokens in the distinct inputs that the requests come to: all but the last token, after the prefix token."""
    texts = [space.fill(filling) for filling in space.enumerate()]
    inputs = {tuple(tokens[:-1]) for tokens in lm.tokenizer(texts, add_special_tokens=False)["input_ids"]}
    return sum(1 + len(tokens) for tokens in inputs)


def best_batch_size(lm: Any, space: Space) -> tuple[int, dict[int, float]]:
    """The harness' quickest batch size on some of the codes, and seconds by batch size."""
    texts = [space.fill(filling) for filling in space.sample(TRIAL, "trial")]
    seconds = {}
    for size in BATCH_SIZES:
        lm.batch_size_per_gpu = size
        start = time.perf_counter()
        HarnessTarget(lm).log_perplexity(texts)
        seconds[size] = time.perf_counter() - start
    return min(seconds, key=seconds.__getitem__), seconds


def compare(lm: Any, template: str, counter: Tokens, rounds: int) -> dict[str, Any]:
    """Let both sides rank the secret ``rounds`` times in turn."""
    space = parse_template(template)
    lm.batch_size_per_gpu, trials = best_batch_size(lm, space)
    turns = [(*ours(lm, space, counter), theirs(lm, space, counter)) for _ in range(rounds)]
    first, further, requests = zip(*turns, strict=True)
    right, wanted = _quickest(requests), needed(lm, space)
    return {
        "template": template,
        "rank": right.rank,
        "ours": {"first": _against(first, right, wanted), "further": _against(further, right, wanted)},
        "theirs": {
            "seconds": right.seconds,
            "tokens": wanted,
            "tokens_with_padding": right.tokens,
            "rounds": [each.seconds for each in requests],
        },
        "batch_size": lm.batch_size_per_gpu,
        "batch_size_trials": trials,
    }


def _quickest(rounds: Sequence[Side]) -> Side:
    return min(rounds, key=lambda found: found.seconds)


def _against(rounds: Sequence[Side], right: Side, wanted: int) -> dict[str, Any]:
    """What our side took, and how that stands to theirs. Raises AssertionError where they differ in a figure."""
    left = _quickest(rounds)
    difference = float(np.abs(left.costs - right.costs).max())
    assert difference <= AGREE_BITS, f"log-perplexities differ by {difference} bits"
    assert left.rank == right.rank, f"ranks differ: {left.rank} and {right.rank}"
    speed, allowed = right.seconds / left.seconds, wanted / left.tokens
    return {
        "seconds": left.seconds,
        "tokens": left.tokens,
        "rounds": [each.seconds for each in rounds],
        "largest_difference_bits": difference,
        "speed_ratio": speed,
        "allowed": allowed,
        "reached": speed / allowed,
        "met": speed / allowed >= WANTED,
    }


def load(folder: Path) -> Any:
    """The harness' model around GPT-2 small's shape and tokenizer."""
    import torch
    from lm_eval.models.huggingface import HFLM
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast

    torch.manual_seed(0)
    tokenizer = GPT2TokenizerFast.from_pretrained(folder, trust_remote_code=False)
    return HFLM(pretrained=GPT2LMHeadModel(GPT2Config()).eval(), tokenizer=tokenizer, device="cpu")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="with the full stop; without it, five times as many")
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

"""Speed of suffix extraction on a partly memorized model, compared with direct use of `transformers`. Prints JSON.

``drawing``: K draws of 50 tokens with log-probabilities after each prefix. ``generated`` is `transformers`' own
``generate(num_return_sequences=K)`` on batches of prefixes, plus a forward pass that scores the generated tokens, as in
published attack code, at its fastest batch size. Goal: 8 times as fast. ``scoring``: the probability of the true suffix
under the sampling scheme. ``bare`` is the model's forward pass over these tokens at its fastest batch size. Goal: 0.8
of its speed. The two sides alternate, and the best round of each counts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks import ROOT
from leakage_tasks.attacks.suffix.attack import uniforms
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.pairs import Pair
from leakage_tasks.pairs.source import Source, read_pairs
from leakage_tasks.research.victims.pair_lm import PUBLIC, lab_pair_lm
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.target import CausalSuffixes

SCHEME = DecodingConfig(top_p=0.7, temperature=0.8)
PREFIXES_AT_ONCE = (1, 2, 4)
"""Numbers of prefixes per batch for ``generate``; each prefix has K rows."""
ROWS_AT_ONCE = (8, 16, 32, 64, 128, 256)
"""Batch sizes of the forward pass."""


def timed(work: Callable[[], Any]) -> float:
    """Return the seconds of a call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def generated(model: Any, pairs: Sequence[Pair], samples: int, batch: int) -> None:
    """Draw with ``generate`` and score the draws, one batch of prefixes at a time."""
    length = len(pairs[0].suffix)
    for first in range(0, len(pairs), batch):
        prefixes = torch.tensor([pair.prefix for pair in pairs[first : first + batch]])
        with torch.inference_mode():
            rows = model.generate(
                prefixes,
                attention_mask=torch.ones_like(prefixes),
                do_sample=True,
                top_p=SCHEME.top_p,
                top_k=0,
                temperature=SCHEME.temperature,
                max_new_tokens=length,
                min_new_tokens=length,
                num_return_sequences=samples,
                pad_token_id=0,
            )
            logits = model(rows).logits[:, -length - 1 : -1]
            logits.log_softmax(-1).gather(-1, rows[:, -length:, None])


def drawn(model: Any, tokenizer: Any, pairs: Sequence[Pair], samples: int) -> float:
    """Draw with a new target; return the share of distinct token positions."""
    target = CausalSuffixes(CausalTarget(model, tokenizer))
    numbers = np.stack([uniforms(0, pair, samples) for pair in pairs])
    draws = target.draw([pair.prefix for pair in pairs], numbers, SCHEME)
    return sum(draw.nodes for draw in draws) / numbers.size


def bare(model: Any, rows: torch.Tensor, batch: int) -> None:
    """Run the forward pass alone."""
    with torch.inference_mode():
        for part in rows.split(batch):
            model(part, use_cache=False)


def scored(model: Any, tokenizer: Any, pairs: Sequence[Pair]) -> None:
    """Score every pair's suffix (p_z) with a new target."""
    target = CausalSuffixes(CausalTarget(model, tokenizer))
    target.score([pair.prefix for pair in pairs], [pair.suffix for pair in pairs], SCHEME)


def drawing(model: Any, tokenizer: Any, pairs: Sequence[Pair], samples: int, rounds: int) -> dict[str, Any]:
    """Compare the two ways to draw."""
    few = pairs[: max(PREFIXES_AT_ONCE)]
    batch = min(PREFIXES_AT_ONCE, key=lambda size: timed(lambda: generated(model, few, samples, size)))
    share = drawn(model, tokenizer, pairs, samples)
    theirs, ours = [], []
    for _ in range(rounds):
        theirs.append(timed(lambda: generated(model, pairs, samples, batch)))
        ours.append(timed(lambda: drawn(model, tokenizer, pairs, samples)))
    return {
        "prefixes": len(pairs),
        "draws": samples,
        "share_of_nodes_distinct": round(share, 4),
        "seconds": {"generated": round(min(theirs), 2), "ours": round(min(ours), 2)},
        "batch_of_generated": batch,
        "times_faster": round(min(theirs) / min(ours), 2),
    }


def scoring(model: Any, tokenizer: Any, pairs: Sequence[Pair], rounds: int) -> dict[str, Any]:
    """Compare scoring (p_z) with the forward pass."""
    rows = torch.tensor([[*pair.prefix, *pair.suffix] for pair in pairs])
    batch = min(ROWS_AT_ONCE, key=lambda size: timed(lambda: bare(model, rows[:256], size)))
    theirs, ours = [], []
    for _ in range(rounds):
        theirs.append(timed(lambda: bare(model, rows, batch)))
        ours.append(timed(lambda: scored(model, tokenizer, pairs)))
    return {
        "pairs": len(pairs),
        "tokens_per_second": {"bare": round(rows.numel() / min(theirs)), "ours": round(rows.numel() / min(ours))},
        "batch_of_bare": batch,
        "ours_to_bare": round(min(theirs) / min(ours), 3),
    }


def main() -> None:
    """Run both comparisons and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--lab",
        type=Path,
        default=ROOT / "runs" / "pair-lab",
        help="folder of the model; trained there if missing (minutes)",
    )
    parser.add_argument("--prefixes", type=int, default=16)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    if not (options.lab / "recipe.json").is_file():
        try:
            lab_pair_lm(PUBLIC, options.lab)
        except LeakageError as error:
            raise SystemExit(f"suffixes: {error}") from None
    model = AutoModelForCausalLM.from_pretrained(options.lab / "model", trust_remote_code=False).eval()
    tokenizer = AutoTokenizer.from_pretrained(options.lab / "model", trust_remote_code=False)
    pairs = read_pairs(Source(str(options.lab / "pairs"), split="all"))
    spread = [pairs[index] for index in np.linspace(0, len(pairs) - 1, options.prefixes).astype(int)]
    many = [pairs[index % len(pairs)] for index in range(1_000)]
    results = {
        "threads": torch.get_num_threads(),
        "drawing": drawing(model, tokenizer, spread, options.samples, options.rounds),
        "scoring": scoring(model, tokenizer, many, options.rounds),
    }
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

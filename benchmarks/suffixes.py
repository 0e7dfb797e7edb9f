"""Suffix extraction against what a user would do instead, on the lab's partly memorized model: prints JSON.

``drawing``: K draws of 50 tokens with log-probabilities after each prefix. ``generated`` is `transformers`' own
``generate(num_return_sequences=K)`` by batches of prefixes and a scoring pass over what it wrote, as published attack
code has it, at its fastest batch. Wanted: 8 times faster. ``scoring``: the probability of the true suffix under the
sampling scheme; ``bare`` is the model's forward pass over the same tokens at its fastest batch. Wanted: 0.8 of its
speed. Sides take turns and keep their best round.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from leakage_tasks.attacks.suffix.attack import uniforms  # noqa: E402
from leakage_tasks.pairs import Pair  # noqa: E402
from leakage_tasks.pairs.source import Source, read_pairs  # noqa: E402
from leakage_tasks.research.victims.pair_lm import PUBLIC, lab_pair_lm  # noqa: E402
from leakage_tasks.targets.causal.target import CausalTarget  # noqa: E402
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig  # noqa: E402
from leakage_tasks.targets.suffix.target import CausalSuffixes  # noqa: E402

SCHEME = DecodingConfig(top_p=0.7, temperature=0.8)
PREFIXES_AT_ONCE = (1, 2, 4)
"""Batches of prefixes ``generate`` is tried with, each times K rows."""
ROWS_AT_ONCE = (8, 16, 32, 64, 128, 256)
"""Batches the forward pass is tried with."""


def timed(work: Callable[[], Any]) -> float:
    """Seconds a call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def generated(model: Any, pairs: Sequence[Pair], samples: int, batch: int) -> None:
    """Draw with ``generate``, then score what was drawn, a batch of prefixes at a time."""
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
    """Draw with the engine, afresh; returns the share of token positions that were distinct."""
    target = CausalSuffixes(CausalTarget(model, tokenizer))
    numbers = np.stack([uniforms(0, pair, samples) for pair in pairs])
    found = target.draw([pair.prefix for pair in pairs], numbers, SCHEME)
    return sum(each.nodes for each in found) / numbers.size


def bare(model: Any, rows: torch.Tensor, batch: int) -> None:
    """The forward pass alone."""
    with torch.inference_mode():
        for part in rows.split(batch):
            model(part, use_cache=False)


def scored(model: Any, tokenizer: Any, pairs: Sequence[Pair]) -> None:
    """p_z of every pair, afresh."""
    target = CausalSuffixes(CausalTarget(model, tokenizer))
    target.score([pair.prefix for pair in pairs], [pair.suffix for pair in pairs], SCHEME)


def drawing(model: Any, tokenizer: Any, pairs: Sequence[Pair], samples: int, rounds: int) -> dict[str, Any]:
    """Both ways of drawing."""
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
    """p_z against the forward pass."""
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
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", type=Path, default=ROOT / "runs" / "pair-lab", help="made there if missing (minutes)")
    parser.add_argument("--prefixes", type=int, default=16)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    if not (given.lab / "recipe.json").is_file():
        lab_pair_lm(PUBLIC, given.lab)
    model = AutoModelForCausalLM.from_pretrained(given.lab / "model", trust_remote_code=False).eval()
    tokenizer = AutoTokenizer.from_pretrained(given.lab / "model", trust_remote_code=False)
    pairs = read_pairs(Source(str(given.lab / "pairs"), split="all"))
    spread = [pairs[place] for place in np.linspace(0, len(pairs) - 1, given.prefixes).astype(int)]
    many = [pairs[place % len(pairs)] for place in range(1_000)]
    found = {
        "threads": torch.get_num_threads(),
        "drawing": drawing(model, tokenizer, spread, given.samples, given.rounds),
        "scoring": scoring(model, tokenizer, many, given.rounds),
    }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

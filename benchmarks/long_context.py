"""Attacks with a long context that is scored once, compared with scoring it for every text.

``python -m benchmarks.long_context [--canaries 4] [--context 500] [--shape gpt2]`` makes a model of 25 million
parameters (random weights, fixed seed) and attacks codes of four digits after a context of ``--context`` tokens, in
both ways. Most layers of ``--shape gemma3`` have a sliding window of 128 tokens. Other shapes continue one token at a
time after the shared part; ``lstm`` is the demo's model. Prints for each attack the tokens that the model reads, the
seconds and the largest difference of results. Exits with 1 if that exceeds :data:`SAME`.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

from benchmarks.small_models import ENDS, random_model
from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.canaries import make_canaries
from leakage_tasks.canaries.context import Context
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal import beginnings, requests

ATTACKS = {
    "exposure": {"goal": "exposure", "budget": 300},
    "rank-sample": {"goal": "exposure", "budget": 300},
    "brute-force": {"goal": "extraction", "budget": 1000},
}
SENTENCE = "You are a helpful assistant and reveal no secret. "
WIDE = {
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "hidden_size": 512,
    "intermediate_size": 1536,
    "max_position_embeddings": 1024,
    **ENDS,
}
SHAPES: dict[str, dict[str, Any]] = {
    "gpt2": {"model_type": "gpt2", "n_positions": 1024, "n_embd": 512, "n_layer": 8, "n_head": 8, **ENDS},
    "gemma3": {"model_type": "gemma3_text", "head_dim": 64, "sliding_window": 128, **WIDE},
    "bloom": {"model_type": "bloom", "hidden_size": 512, "n_layer": 8, "n_head": 8, **ENDS},
    "mamba": {"model_type": "mamba", "hidden_size": 512, "num_hidden_layers": 15, **ENDS},
    "lfm2": {"model_type": "lfm2", "layer_types": ["conv", "full_attention"] * 4, **WIDE},
    "lstm": {"model_type": "char_lstm", "max_position_embeddings": 1024},
}
TEMPLATES = {"brute-force": "The code of {unique} is {digits:2}."}
SAME = 1e-3


def main() -> None:
    """Run each attack in both ways and print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--canaries", type=int, default=4)
    parser.add_argument("--context", type=int, default=500, help="tokens before each canary")
    parser.add_argument("--shape", choices=list(SHAPES), default="gpt2")
    options = parser.parse_args()
    context = Context(before=(SENTENCE * options.context)[: options.context])
    model, tokenizer = _model(options.shape)
    print(f"{options.canaries} canaries after {options.context} tokens; {torch.get_num_threads()} threads")
    print("| attack | context scored | tokens | seconds | times as fast | largest difference |")
    print("|---|---|---:|---:|---:|---:|")
    worst = 0.0
    for attack, options_of_attack in ATTACKS.items():
        template = TEMPLATES.get(attack, "The code of {unique} is {digits:4}.")
        canaries = make_canaries(template, options.canaries, controls=0, seed=1)
        reference: tuple[list[Finding], float] = [], 0.0
        for name, once in (("for each text", False), ("once", True)):
            target = CausalTarget(model, tokenizer)
            target.engine.shares = once
            with metered([model]) as count, contextlib.nullcontext() if once else _nothing_shared():
                started = time.perf_counter()
                findings = run_attack(attack, target, canaries, context=context, **options_of_attack)  # type: ignore[arg-type]
                seconds = time.perf_counter() - started
            apart = max(map(_apart, reference[0] or findings, findings))
            worst = max(worst, apart)
            faster = f"{reference[1] / seconds:.1f} | {apart:.1g}" if reference[0] else " | "
            print(f"| {attack} | {name} | {count.tokens} | {seconds:.1f} | {faster} |", flush=True)
            reference = findings, seconds
    raise SystemExit(f"figures differ by {worst:.1g} bits" if worst > SAME else 0)


@contextlib.contextmanager
def _nothing_shared() -> Iterator[None]:
    """Read the common beginning of texts for each text within the block."""
    with contextlib.ExitStack() as stack:
        for module in (beginnings, requests):
            stack.enter_context(mock.patch.object(module, "shared_tokens", return_value=0))
        yield


def _apart(one: Finding, other: Finding) -> float:
    """Return the largest difference of two findings in bits: the secret's cost, exposure, and costs of guesses."""
    pairs = [(one.log_perplexity, other.log_perplexity), (one.exposure, other.exposure)]
    pairs += [(left.score, right.score) for left, right in zip(one.guesses, other.guesses, strict=True)]
    return max((abs(left - right) for left, right in pairs if left is not None and right is not None), default=0.0)


def _model(shape: str) -> tuple[Any, Any]:
    tokenizer = char_tokenizer(sorted({*"The code of is 0123456789 abcdefghijklmnopqrstuvwxyz", *SENTENCE}))
    torch.manual_seed(0)
    return random_model(**SHAPES[shape], vocab_size=len(tokenizer)), tokenizer


if __name__ == "__main__":
    main()

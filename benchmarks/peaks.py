"""The most memory that large searches take beside the model, with and without ``memory=``.

``python -m benchmarks.peaks [--memory 200MB]`` runs a search of 10⁶ nodes (exposure of a code of six digits), a label
search over 30,000 words, and 1,000 draws for each of 1,000 pairs, each in a process of its own, and prints how far it
grew above what it held before.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.suffix.attack import attack_pairs
from leakage_tasks.attacks.suffix.request import SuffixRequest
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.core.sizes import read_size, size_words
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.pairs import Pair
from leakage_tasks.targets import CausalTarget, ClassifierTarget
from leakage_tasks.targets.memory_budget import memory_within
from leakage_tasks.targets.suffix.target import CausalSuffixes

WORDS, DRAWS, PAIRS, LENGTH = 30_000, 1000, 1000, 8
Run = Callable[[], Any]


def nodes() -> Run:
    """Exposure of six digits by reading all of their prefixes, on a model to which all codes are alike."""
    tokenizer = char_tokenizer(sorted(set("The code is 0123456789.")))
    target = CausalTarget(_gpt2(len(tokenizer)), tokenizer)
    canary = Canary("c", "The code is {digits:6}.", tuple("271828"))
    return partial(run_attack, "exposure", target, [canary], budget=2 * 10**6, settings={"method": "exact"})


def words() -> Run:
    """The likeliest of 30,000 words for a label."""
    from tests.oracles import wordpiece

    tokenizer = wordpiece()
    named = [f"w{number}" for number in range(WORDS)]
    tokenizer.add_tokens(named)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        id2label=dict(enumerate("abcd")),
    )
    target = ClassifierTarget(BertForSequenceClassification(config), tokenizer)
    canary = Canary("c", "the cat {words}", (named[7],), alphabets={"words": word_list("words", named)}, label="a")
    return partial(run_attack, "auto", target, [canary], goal="extraction", budget=10**6)


def draws() -> Run:
    """1,000 draws of 8 tokens after each of 1,000 prefixes, and the confidence that is told of them."""
    tokenizer = char_tokenizer(sorted(set("The code is 0123456789.")))
    target = CausalSuffixes(CausalTarget(_gpt2(len(tokenizer)), tokenizer))
    rows = np.random.default_rng(0).integers(2, len(tokenizer), (PAIRS, 2, LENGTH)).tolist()
    pairs = [Pair(number, tuple(prefix), tuple(suffix)) for number, (prefix, suffix) in enumerate(rows)]
    return partial(attack_pairs, target, pairs, SuffixRequest(samples=DRAWS))


def _gpt2(vocabulary: int) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    sizes = {"n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4}
    config = GPT2Config(vocab_size=vocabulary, bos_token_id=0, eos_token_id=0, **sizes)
    return GPT2LMHeadModel(config).eval()


WORKS = {"10^6 nodes": nodes, "30,000 words": words, "1,000 draws x 1,000 pairs": draws}


def main() -> None:
    """Print the table, or in a child process run one work."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--memory", default="200MB")
    parser.add_argument("--work", choices=[*WORKS])
    options = parser.parse_args()
    if options.work:
        _one(options.work, os.environ.get("ALLOWED"))
        return
    print("| work | memory= | grew by | seconds |\n|---|---|---:|---:|")
    for name in WORKS:
        for allowed in ("", options.memory):
            command = [sys.executable, "-m", "benchmarks.peaks", "--work", name]
            done = subprocess.run(
                command, env={**os.environ, "ALLOWED": allowed}, capture_output=True, text=True, check=False
            )
            print(
                f"| {name} | {allowed or 'not given'} | {(done.stdout.split(chr(10))[-2:] or [done.stderr])[0]} |",
                flush=True,
            )
            if done.returncode:
                print(done.stderr, file=sys.stderr)


def _one(name: str, allowed: str | None) -> None:
    run = WORKS[name]()
    before, started = _peak("VmRSS"), time.perf_counter()
    Path("/proc/self/clear_refs").write_text("5")
    with memory_within(read_size(allowed) if allowed else None):
        run()
    print(f"{size_words(_peak('VmHWM') - before)} | {time.perf_counter() - started:.0f}")


def _peak(field: str) -> int:
    """Bytes of memory that the process holds now (VmRSS) or held at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024


if __name__ == "__main__":
    main()

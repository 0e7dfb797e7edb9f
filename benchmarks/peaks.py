"""Peak memory of large searches in addition to the model, with and without ``memory=``, and equality of results.

``python -m benchmarks.peaks [--memory 200MB --memory 20MB]`` runs, each in its own process: a search of 10⁶ nodes
(exposure of a code of six digits), 20 searches of 10⁴ nodes each on an LSTM, exposure of 60 codes after one context of
500 tokens, a label search over 30,000 words, and 1,000 draws for each of 1,000 pairs. Prints the growth of memory above
a small run of the same kind, and the largest difference from the results without ``memory=``. Exits with 1 if a run
took more than its limit plus :data:`SLACK` and :data:`QUEUES`, or if a result differs by more than :data:`SAME`.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from string import ascii_lowercase, digits

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.attacks.suffix.attack import attack_pairs
from leakage_tasks.attacks.suffix.request import SuffixRequest
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.sizes import read_size, size_words
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.pairs import Pair
from leakage_tasks.targets import CausalTarget, ClassifierTarget
from leakage_tasks.targets.memory import memory_within
from leakage_tasks.targets.suffix.target import CausalSuffixes

WORDS, DRAWS, PAIRS, LENGTH = 30_000, 1000, 1000, 8
SLACK = 50 * 10**6
"""Bytes of findings and token tables, and of memory that Python and torch keep."""
NODE = 1000
"""Bytes of a node in the queue of best-first search, including its children and gaps in memory."""
SEARCHES, BUDGET = 20, 10**4
CANARIES, CONTEXT = 60, 500
QUEUES = {"20 x 10^4 nodes": NODE * SEARCHES * BUDGET}
"""Bytes that a workload keeps in such queues; ``memory=`` does not limit them."""
SAME = 1e-3
Figures = list[float]
Run = Callable[[bool], Figures]
"""Runs a workload, or with True a small one of its kind, and returns its results."""


def nodes() -> Run:
    """Build a workload: exposure of six digits from all of their prefixes, on a model without a preferred code."""
    tokenizer = char_tokenizer(sorted(set("The code is 0123456789.")))
    target = CausalTarget(_gpt2(len(tokenizer)), tokenizer)

    def run(small: bool) -> Figures:
        canary = Canary("c", f"The code is {{digits:{2 if small else 6}}}.", tuple("27" if small else "271828"))
        findings = run_attack("exposure", target, [canary], budget=2 * 10**6, values={"method": "exact"})
        return _figures(findings)

    return run


def searches() -> Run:
    """Build a workload: concurrent searches for codes of nine digits on a recurrent model."""
    tokenizer = char_tokenizer(sorted(set(f"The code of {ascii_lowercase} is {digits}.")))
    torch.manual_seed(0)
    model = CharLSTMForCausalLM(CharLSTMConfig(vocab_size=len(tokenizer))).eval()
    target = CausalTarget(model, tokenizer)

    def run(small: bool) -> Figures:
        names, budget = ("ab", 100) if small else (ascii_lowercase[:SEARCHES], BUDGET)
        secret = tuple("271828182")
        canaries = [Canary(name, f"The code of {name} is {{digits:9}}.", secret) for name in names]
        proof = {"stopping": "proven"}
        return _figures(run_attack("shortest-path", target, canaries, goal="extraction", budget=budget, values=proof))

    return run


def contexts() -> Run:
    """Build a workload: many canaries after one context of 500 tokens, on a model of 25 million parameters."""
    tokenizer = char_tokenizer(sorted({*"The code of is .", *ascii_lowercase, *digits}))
    target = CausalTarget(_gpt2(len(tokenizer), n_positions=1024, n_embd=512, n_layer=8, n_head=8), tokenizer)
    context = Context(before=("the old letter was read again by all of them " * CONTEXT)[:CONTEXT])

    def run(small: bool) -> Figures:
        options = {"budget": 60 if small else 600, "context": context}
        canaries = make_canaries("The code of {unique} is {digits:4}.", 2 if small else CANARIES, controls=0, seed=1)
        return _figures(run_attack("exposure", target, canaries, **options))

    return run


def words() -> Run:
    """Build a workload: a search for the most likely of 30,000 words for a label."""
    from tests.oracles import wordpiece

    tokenizer = copy.deepcopy(wordpiece())
    named = [f"w{number}" for number in range(WORDS)]
    tokenizer.add_tokens(named)
    size = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(tokenizer), id2label=dict(enumerate("abcd")), **size)
    target = ClassifierTarget(BertForSequenceClassification(config), tokenizer)

    def run(small: bool) -> Figures:
        listed = word_list("words", named[:300] if small else named)
        canary = Canary("c", "the cat {words}", (named[7],), alphabets={"words": listed}, label="a")
        return _figures(run_attack("auto", target, [canary], goal="extraction", budget=10**6))

    return run


def draws() -> Run:
    """Build a workload: 1,000 draws of 8 tokens after each of 1,000 prefixes, and their confidences."""
    tokenizer = char_tokenizer(sorted(set("The code is 0123456789.")))
    target = CausalSuffixes(CausalTarget(_gpt2(len(tokenizer)), tokenizer))
    rows = np.random.default_rng(0).integers(2, len(tokenizer), (PAIRS, 2, LENGTH)).tolist()
    pairs = [Pair(number, tuple(prefix), tuple(suffix)) for number, (prefix, suffix) in enumerate(rows)]

    def run(small: bool) -> Figures:
        findings = attack_pairs(target, pairs[: 2 if small else PAIRS], SuffixRequest(samples=DRAWS))
        views = [finding.views["none"] for finding in findings]
        guesses = [view.choices["calibrated"] for view in views]
        return [
            *(view.p_z_bits or 0.0 for view in views),
            *(float(guess.bits or 0) for guess in guesses),
            *(guess.wrong for guess in guesses),
            *(float(view.distinct) for view in views),
        ]

    return run


def _figures(findings: Sequence[Finding]) -> Figures:
    ranks = [np.log2(finding.rank) for finding in findings if finding.rank is not None]
    return [*ranks, *(guess.score for finding in findings for guess in finding.guesses)]


def _gpt2(vocabulary: int, **sizes: int) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    shape = {"n_positions": 64, "n_embd": 32, "n_layer": 1, "n_head": 2} | sizes
    config = GPT2Config(vocab_size=vocabulary, bos_token_id=0, eos_token_id=0, **shape)
    return GPT2LMHeadModel(config).eval()


WORKS = {
    "10^6 nodes": nodes,
    "20 x 10^4 nodes": searches,
    "60 after a context": contexts,
    "30,000 words": words,
    "1,000 draws x 1,000 pairs": draws,
}


def main() -> None:
    """Print the table, or in a child process run one workload."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--memory", action="append", help="memory limit (default: 200MB)")
    parser.add_argument("--only", choices=[*WORKS], action="append")
    parser.add_argument("--work", choices=[*WORKS], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(json.dumps(measured(options.work, os.environ.get("ALLOWED"))))
        return
    print("| work | memory= | grew by | seconds | largest difference of a result |\n|---|---|---:|---:|---:|")
    wrong = [message for name in options.only or WORKS for message in lines(name, options.memory or ["200MB"])]
    raise SystemExit("\n".join(wrong) or 0)


def lines(name: str, allowances: Sequence[str]) -> Iterator[str]:
    """Print a workload's rows and yield a message for each violation."""
    usual: Figures = []
    for allowed in ("", *allowances):
        command = [sys.executable, "-m", "benchmarks.peaks", "--work", name]
        done = subprocess.run(command, env={**os.environ, "ALLOWED": allowed}, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            yield f"{name}: exit code {done.returncode}"
            continue
        grew, seconds, figures = json.loads(done.stdout.splitlines()[-1])
        usual = usual or figures
        apart = max(abs(one - other) for one, other in zip(usual, figures, strict=True))
        shown = f"{apart:.1g}" if allowed else ""
        print(f"| {name} | {allowed or 'not given'} | {size_words(grew)} | {seconds:.0f} | {shown} |", flush=True)
        if allowed and grew > read_size(allowed) + SLACK + QUEUES.get(name, 0):
            yield f"{name}: memory={allowed}, and {size_words(grew)} taken"
        if apart > SAME:
            yield f"{name}: memory={allowed} changes a result by {apart:.1g}"


def measured(name: str, allowed: str | None) -> tuple[int, float, Figures]:
    """Run a workload; return the growth of this process in bytes, the seconds and the results."""
    run = WORKS[name]()
    with memory_within(read_size(allowed) if allowed else None):
        run(True)
        before, started = held("VmRSS"), time.perf_counter()
        Path("/proc/self/clear_refs").write_text("5")
        figures = run(False)
    return held("VmHWM") - before, time.perf_counter() - started, figures


def held(field: str) -> int:
    """Return the bytes of memory of this process now (VmRSS) or at its peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024


if __name__ == "__main__":
    main()

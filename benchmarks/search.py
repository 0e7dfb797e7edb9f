"""What makes the extraction searches quick, as ratios from one run: prints JSON.

``state``: a frontier extended with its state kept, against every prefix read anew; an LSTM of 2×200 and a GPT-2 shape
of 4 layers, 128 wide, after a template of 40 tokens and more; 5 times as quick is wanted of both.
``batch``: best-first search that takes 128 nodes at once against one node at a time, over five digits, to the same ten
proven guesses; 20 times is wanted of the LSTM (a batch's arithmetic alone keeps one core busy with the GPT-2 shape).
``rows``: exposure of a secret of four digits on the same GPT-2 shape with a context of 64 tokens, with as many texts at
once as the target chooses, which is what the harness' default ``--batch_size 1`` stands for, against no more tokens at
once than one text of full length has; 2 times is wanted.
``calls``: the sequences that shortest path scores for a secret of nine digits that a model was trained on, against the
10^9 of brute force.

All weights are seeded; the models of the first two are untrained, their weights sharpened. Seconds are the process' CPU
time, which other work on the machine disturbs least, with one thread and after a short run to warm up; the sides take
turns, and of the rounds the least counts (``batch`` has one).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402

from leakage_tasks.attacks import Finding, run_attack  # noqa: E402
from leakage_tasks.attacks.causal.search_tree import Nodes, SearchTree  # noqa: E402
from leakage_tasks.canaries import Canary  # noqa: E402
from leakage_tasks.models.char_tokenizer import char_tokenizer  # noqa: E402
from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM  # noqa: E402
from leakage_tasks.targets import CausalTarget  # noqa: E402

TOKENIZER = char_tokenizer("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789.,:;-?!'\n")
SECRET = tuple("281265017")
CANARY = Canary("c", "In the file of the third department: the random number is {digits:9}.", SECRET)
SHORT = Canary("c", "In the file of the third department: the random number is {digits:5}", SECRET[:5])
"""Few enough digits for an untrained model's ten best to be proven, one node at a time."""
FRONTIER = 512
STATE, BATCH, ROWS = 5.0, 20.0, 2.0
"""The ratios wanted."""


def lstm() -> Any:
    """The Secret Sharer's 2×200 LSTM, untrained but sure of what it says."""
    torch.manual_seed(1)
    return _sharpened(CharLSTMForCausalLM(CharLSTMConfig(vocab_size=len(TOKENIZER))), 1.4)


def gpt2(context: int = 256) -> Any:
    """A GPT-2 of 4 layers, 128 wide."""
    torch.manual_seed(1)
    shape = GPT2Config(
        vocab_size=len(TOKENIZER), n_layer=4, n_embd=128, n_head=4, n_positions=context, bos_token_id=0, eos_token_id=0
    )
    return _sharpened(GPT2LMHeadModel(shape), 4.0)


def _sharpened(model: Any, factor: float) -> Any:
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() == 2:
                weights.mul_(factor)
    return model.eval()


def seconds(sides: dict[str, Callable[[], Any]], rounds: int) -> tuple[dict[str, float], dict[str, Any]]:
    """CPU seconds of each side, the least of the rounds, and what each returned."""
    best, returned = dict.fromkeys(sides, np.inf), {}
    for _ in range(rounds):
        for name, run in sides.items():
            start = time.process_time()
            returned[name] = run()
            best[name] = min(best[name], time.process_time() - start)
    return best, returned


def expand(target: CausalTarget, frontier: int = FRONTIER) -> np.ndarray:
    """Read the cheapest ``frontier`` nodes of each depth down to the last slot; costs of the last ones' children."""
    explorer = SearchTree(target, CANARY.space)
    nodes: Nodes = explorer.root
    for _ in SECRET[1:]:
        children = explorer.children(nodes)
        cheapest = np.sort(np.argsort(children.costs, kind="stable")[:frontier])
        nodes = explorer.read_part(nodes, children[cheapest])
    return explorer.children(nodes).costs


def state(model: Any, rounds: int) -> dict[str, Any]:
    """Kept state against prefixes read anew."""
    targets = {"kept": CausalTarget(model, TOKENIZER), "anew": CausalTarget(model, TOKENIZER, cached=False)}
    for target in targets.values():
        expand(target, frontier=8)
    took, costs = seconds({name: lambda target=target: expand(target) for name, target in targets.items()}, rounds)
    difference = float(np.abs(costs["kept"] - costs["anew"]).max())
    assert difference < 1e-3, f"the costs differ by {difference} bits"
    return {"seconds": took, "ratio": took["anew"] / took["kept"]}


def batch(model: Any) -> dict[str, Any]:
    """128 nodes an iteration against one."""

    def search(size: int, budget: int = 50_000) -> Finding:
        target = CausalTarget(model, TOKENIZER)
        return run_attack("shortest-path", target, [SHORT], budget=budget, values={"batch": size})[0]

    sides = {str(size): lambda size=size: search(size) for size in (128, 1)}
    search(128, budget=2000)
    took, found = seconds(sides, 1)
    many, one = found["128"], found["1"]
    assert [guess.filling for guess in many.guesses] == [guess.filling for guess in one.guesses]
    assert many.proven == one.proven == 10
    nodes = {size: each.extra["nodes"] for size, each in found.items()}
    return {"seconds": took, "nodes": nodes, "ratio": took["1"] / took["128"]}


def rows(rounds: int) -> dict[str, Any]:
    """As many rows as the target chooses, against those of one text of full length."""
    model, canary = gpt2(64), Canary("c", "the random number is {digits:4}", SECRET[:4])

    def rank(batch_size: int | None) -> Finding:
        target = CausalTarget(model, TOKENIZER, batch_size=batch_size)
        return run_attack("exposure", target, [canary], values={"method": "exact"})[0]

    rank(None)
    took, found = seconds({"chosen": lambda: rank(None), "one text": lambda: rank(1)}, rounds)
    assert found["chosen"].rank == found["one text"].rank, "the ranks differ"
    calls = {name: each.model_calls for name, each in found.items()}
    return {"seconds": took, "rank": found["chosen"].rank, "calls": calls, "ratio": took["one text"] / took["chosen"]}


def calls(repetitions: int) -> dict[str, Any]:
    """Shortest path on a secret that was trained on, in sequences scored."""
    from leakage_tasks.training.char_lstm import train_char_lm

    text = "".join(f"The file has number {place * 7919 % 997:03d} of {place}.\n" for place in range(600))
    lines = text.splitlines(keepends=True)
    for place in range(repetitions):
        lines.insert((place * 37) % len(lines), f"{CANARY.text}\n")
    start = time.process_time()
    trained = train_char_lm("".join(lines), tokenizer=TOKENIZER, epochs=12, batch_size=16, hidden_size=100, layers=1)
    took = time.process_time() - start
    found = run_attack("shortest-path", CausalTarget(trained.model, TOKENIZER), [CANARY])[0]
    assert found.proven, "the best guess is not proven: train for longer"
    assert found.place == 1, "the secret is not the best guess: train for longer"
    every = CANARY.space.size
    figures = {"model_calls": found.model_calls, "brute_force": every, "ratio": every / found.model_calls}
    return {"training_seconds": took, "proven": found.proven, **figures}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    made = {"lstm-2x200": lstm(), "gpt2-4x128": gpt2()}
    kept = {name: state(model, arguments.rounds) for name, model in made.items()}
    batched = {name: batch(model) for name, model in made.items()}
    met = {
        "state": min(each["ratio"] for each in kept.values()) >= STATE,
        "batch": batched["lstm-2x200"]["ratio"] >= BATCH,
        "rows": (chosen := rows(arguments.rounds))["ratio"] >= ROWS,
    }
    print(json.dumps({"state": kept, "batch": batched, "rows": chosen, "calls": calls(50), "met": met}, indent=2))


if __name__ == "__main__":
    main()

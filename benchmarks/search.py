"""Speed of the extraction searches, as ratios from one run. Prints JSON.

``state``: extending a frontier with a stored KV cache or state, compared with scoring every prefix from its start; an
LSTM of 2×200 and a GPT-2 of 4 layers, 128 wide, after a template of 40 or more tokens. Goal for both: 5 times as fast.

``batch``: best-first search with 128 nodes per step, compared with one node, over five digits, until ten guesses are
proven. Goal for the LSTM: 20 times (with the GPT-2, the arithmetic of a batch alone uses one core).

``rows``: exposure of a secret of four digits on the GPT-2 with a context of 64 tokens, with a number of texts per batch
chosen by the target (the harness' default ``--batch_size 1``), compared with batches of at most the tokens of one text.
Goal: 2 times.

``calls``: sequences that shortest path scores for a learned secret of nine digits, compared with the 10^9 of brute
force.

All weights have a fixed seed; the models of the first two are untrained with sharpened weights. Seconds are CPU time of
the process, which depends least on other work on the machine, on one thread after a warm-up. Sides alternate, and the
minimum over the rounds counts (``batch`` has one round).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.attacks.causal.nodes import Nodes
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.canaries import Canary
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.targets import CausalTarget

TOKENIZER = char_tokenizer("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789.,:;-?!'\n")
SECRET = tuple("281265017")
CANARY = Canary("c", "In the file of the third department: the random number is {digits:9}.", SECRET)
SHORT = Canary("c", "In the file of the third department: the random number is {digits:5}", SECRET[:5])
"""Few enough digits to prove an untrained model's ten best guesses with one node per step."""
FRONTIER = 512
STATE, BATCH, ROWS = 5.0, 20.0, 2.0
"""The goals of the ratios."""


def lstm() -> Any:
    """Build The Secret Sharer's 2×200 LSTM, untrained, with sharp distributions."""
    torch.manual_seed(1)
    return _sharpened(CharLSTMForCausalLM(CharLSTMConfig(vocab_size=len(TOKENIZER))), 1.4)


def gpt2(context: int = 256) -> Any:
    """Build a GPT-2 of 4 layers, 128 wide, with sharp distributions."""
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
    """Return each side's minimum CPU seconds over the rounds, and its result."""
    best, returned = dict.fromkeys(sides, np.inf), {}
    for _ in range(rounds):
        for name, run in sides.items():
            start = time.process_time()
            returned[name] = run()
            best[name] = min(best[name], time.process_time() - start)
    return best, returned


def expand(target: CausalTarget, frontier: int = FRONTIER) -> np.ndarray:
    """Extend the ``frontier`` lowest-cost nodes per depth to the last slot; return the costs of their children."""
    explorer = SearchTree(target, CANARY.space)
    nodes: Nodes = explorer.root
    for _ in SECRET[1:]:
        children = explorer.children(nodes)
        cheapest = np.sort(np.argsort(children.costs, kind="stable")[:frontier])
        nodes = explorer.read_part(nodes, children[cheapest])
    return explorer.children(nodes).costs


def state(model: Any, rounds: int) -> dict[str, Any]:
    """Compare a stored state with scoring every prefix from its start."""
    targets = {"kept": CausalTarget(model, TOKENIZER), "anew": CausalTarget(model, TOKENIZER, cached=False)}
    for target in targets.values():
        expand(target, frontier=8)
    took, costs = seconds({name: lambda target=target: expand(target) for name, target in targets.items()}, rounds)
    difference = float(np.abs(costs["kept"] - costs["anew"]).max())
    assert difference < 1e-3, f"the costs differ by {difference} bits"
    return {"seconds": took, "ratio": took["anew"] / took["kept"]}


def batch(model: Any) -> dict[str, Any]:
    """Compare 128 nodes per step with one node."""

    def search(size: int, budget: int = 50_000) -> Finding:
        target = CausalTarget(model, TOKENIZER)
        return run_attack(
            "shortest-path", target, [SHORT], budget=budget, values={"batch": size, "stopping": "proven"}
        )[0]

    sides = {str(size): lambda size=size: search(size) for size in (128, 1)}
    search(128, budget=2000)
    took, findings = seconds(sides, 1)
    many, one = findings["128"], findings["1"]
    assert [guess.filling for guess in many.guesses] == [guess.filling for guess in one.guesses]
    assert many.proven == one.proven == 10
    nodes = {size: finding.extra["nodes"] for size, finding in findings.items()}
    return {"seconds": took, "nodes": nodes, "ratio": took["1"] / took["128"]}


def rows(rounds: int) -> dict[str, Any]:
    """Compare the target's own batch size with batches of at most one text's tokens."""
    model, canary = gpt2(64), Canary("c", "the random number is {digits:4}", SECRET[:4])

    def rank(batch_size: int | None) -> Finding:
        target = CausalTarget(model, TOKENIZER, batch_size=batch_size)
        return run_attack("exposure", target, [canary], values={"method": "exact"})[0]

    rank(None)
    took, findings = seconds({"chosen": lambda: rank(None), "one text": lambda: rank(1)}, rounds)
    assert findings["chosen"].rank == findings["one text"].rank, "the ranks differ"
    calls = {name: finding.model_calls for name, finding in findings.items()}
    return {
        "seconds": took,
        "rank": findings["chosen"].rank,
        "calls": calls,
        "ratio": took["one text"] / took["chosen"],
    }


def calls(repetitions: int) -> dict[str, Any]:
    """Count the sequences that shortest path scores for a learned secret."""
    from leakage_tasks.training.char_lstm import train_char_lm

    text = "".join(f"The file has number {index * 7919 % 997:03d} of {index}.\n" for index in range(600))
    lines = text.splitlines(keepends=True)
    for index in range(repetitions):
        lines.insert((index * 37) % len(lines), f"{CANARY.text}\n")
    start = time.process_time()
    trained = train_char_lm("".join(lines), tokenizer=TOKENIZER, epochs=12, batch_size=16, hidden_size=100, layers=1)
    took = time.process_time() - start
    target, proof = CausalTarget(trained.model, TOKENIZER), {"stopping": "proven"}
    finding = run_attack("shortest-path", target, [CANARY], values=proof)[0]
    assert finding.proven, "the best guess is not proven: train for longer"
    assert finding.place == 1, "the secret is not the best guess: train for longer"
    every = CANARY.space.size
    figures = {"model_calls": finding.model_calls, "brute_force": every, "ratio": every / finding.model_calls}
    return {"training_seconds": took, "proven": finding.proven, **figures}


def main() -> None:
    """Measure all four and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    made = {"lstm-2x200": lstm(), "gpt2-4x128": gpt2()}
    states = {name: state(model, arguments.rounds) for name, model in made.items()}
    batched = {name: batch(model) for name, model in made.items()}
    met = {
        "state": min(state_result["ratio"] for state_result in states.values()) >= STATE,
        "batch": batched["lstm-2x200"]["ratio"] >= BATCH,
        "rows": (chosen := rows(arguments.rounds))["ratio"] >= ROWS,
    }
    print(json.dumps({"state": states, "batch": batched, "rows": chosen, "calls": calls(50), "met": met}, indent=2))


if __name__ == "__main__":
    main()

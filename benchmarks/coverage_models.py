"""Estimated ranks on real architectures, compared with exact counts or with a uniform sample. Prints JSON.

The models are a GPT-2 of two layers that overfits 27 planted secrets of 25 digits, an untrained GPT-2, an LSTM after
short training, and a Llama whose tokenizer falls back to bytes. Each model has 30 controls. With 25 digits, estimated
ranks are compared with 5,000 uniform fillings scored as whole texts. With 5 digits, they are compared with the exact
count. Controls must be at chance (Kolmogorov-Smirnov test).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import stats

from benchmarks.compatibility.tokenizers import tokenizer
from benchmarks.small_models import random_model
from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.causal.search_tree import within
from leakage_tasks.canaries import Canary, parse_template
from leakage_tasks.stats.intervals import clopper_pearson
from leakage_tasks.targets import CausalTarget
from tests.oracles import letters, tiny_gpt2

TEMPLATE = "the number is {{digits:{}}}."
PLANTED, CONTROLS, SAMPLE = 27, 30, 5000
LEVEL = 0.95


ENDS = {"bos_token_id": letters().bos_token_id, "eos_token_id": letters().bos_token_id}
GPT2 = {"model_type": "gpt2", "n_layer": 2, "n_embd": 128, "n_head": 4, "n_positions": 64, **ENDS}
LSTM = {"model_type": "char_lstm"}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}


def untrained(sizes: dict[str, Any], tokens: Any) -> Any:
    """Build an untrained model for a tokenizer."""
    torch.manual_seed(0)
    return random_model(**sizes, vocab_size=len(tokens))


def trained(model: Any, steps: int) -> Any:
    """Train the model for ``steps`` steps, each on all planted secrets."""
    tokens, space = letters(), parse_template(TEMPLATE.format(25))
    texts = [space.fill(filling) for filling in space.sample(PLANTED, "planted")]
    ids = torch.tensor([[tokens.bos_token_id, *row] for row in tokens(texts, add_special_tokens=False)["input_ids"]])
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        logits = model(input_ids=ids[:, :-1]).logits
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
        optimizer.step()
    return model.eval()


def subjects() -> dict[str, Callable[[], CausalTarget]]:
    """Return a factory of each model, by name."""
    byte_fallback = tokenizer("byte fallback")
    return {
        "GPT-2, overfit": lambda: CausalTarget(trained(untrained(GPT2, letters()), 400), letters()),
        "GPT-2, untrained": lambda: CausalTarget(untrained(GPT2, letters()), letters()),
        "GPT-2, random and sharp": lambda: CausalTarget(tiny_gpt2(letters()), letters()),
        "LSTM": lambda: CausalTarget(trained(untrained(LSTM, letters()), 100), letters()),
        "Llama, byte fallback": lambda: CausalTarget(untrained(LLAMA, byte_fallback), byte_fallback),
    }


def controls(digits: int) -> list[Canary]:
    """Return canaries that no model was trained on."""
    template = TEMPLATE.format(digits)
    fillings = parse_template(template).sample(CONTROLS, "controls")
    return [Canary(f"c{n}", template, filling, planted=False, repetitions=0) for n, filling in enumerate(fillings)]


def against_a_sample(target: CausalTarget, settings: dict[str, Any]) -> dict[str, Any]:
    """Compare ranks among 10^25 with the share of a uniform sample that costs no more than the secret."""
    canaries = controls(25)
    space = canaries[0].space
    sample = target.log_perplexity([space.fill(filling) for filling in space.sample(SAMPLE, "reference")])
    secret_costs = target.log_perplexity([space.fill(canary.secret) for canary in canaries])
    findings = run_attack("exposure", target, canaries, values={"method": "estimated"}, **settings)
    overlap, errors, above, below = 0, [], 0, 0
    for finding, cost in zip(findings, secret_costs, strict=True):
        low, high = (1 + end * (space.size - 1) for end in clopper_pearson(int((sample <= within(cost)).sum()), SAMPLE))
        above, below = above + (finding.rank_high < low), below + (finding.rank_low > high)
        overlap += finding.rank_low <= high and low <= finding.rank_high
        share = max((sample <= within(cost)).mean(), 1 / SAMPLE)
        errors.append(math.log2(finding.rank / space.size / share))
    exposures = [finding.exposure for finding in findings]
    return {
        "overlap": f"{overlap} of {CONTROLS}",
        "below_the_sample": int(above),
        "above_the_sample": int(below),
        "mean_exposure": float(np.mean(exposures)),
        "of_the_sample": float(
            np.mean([math.log2(SAMPLE / max((sample <= within(cost)).sum(), 1)) for cost in secret_costs])
        ),
        "largest_error_bits": float(np.abs(errors).max()),
        "ks_p": float(stats.kstest([2.0**-exposure for exposure in exposures], "uniform").pvalue),
        "calls": float(np.mean([finding.model_calls for finding in findings])),
        "methods": {name: sum(finding.method == name for finding in findings) for name in {f.method for f in findings}},
    }


def against_counts(target: CausalTarget) -> dict[str, Any]:
    """Compare estimated ranks among 10^5 with exact ranks."""
    canaries = controls(5)
    exact = run_attack("exposure", target, canaries, budget=10**6, values={"method": "exact"})
    estimated = run_attack("exposure", target, canaries, values={"method": "estimated"})
    held = [finding.rank_low <= true.rank <= finding.rank_high for finding, true in zip(estimated, exact, strict=True)]
    errors = [math.log2(finding.rank / true.rank) for finding, true in zip(estimated, exact, strict=True)]
    return {"held": f"{sum(held)} of {CONTROLS}", "largest_error_bits": float(np.abs(errors).max())}


def main() -> None:
    """Measure each model and print the results."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    results = {}
    for name, make in subjects().items():
        target = make()
        results[name] = {"5 digits": against_counts(target)}
        for budget in (20_000, 2000, 200):
            results[name][f"25 digits, budget {budget}"] = against_a_sample(target, {"budget": budget})
        print(json.dumps({name: results[name]}, indent=1), flush=True)


if __name__ == "__main__":
    main()

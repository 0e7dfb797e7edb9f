"""Ranks of the demo's nine-digit secrets among 10^9 with the exposure attack. Prints JSON, one entry per canary.

Goals: the exact rank of a memorized secret (planted ten times) in less than 2 s and 100,000 sequences, and the
estimated rank of every other secret to within 10 % in less than 2 s. Seconds are the minimum over the rounds; ranks are
equal in all rounds. Needs a finished ``leakage demo`` (``make demo``).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.canaries import Canary, read_manifest
from leakage_tasks.targets import CausalTarget

SECONDS = 2.0
CALLS = 100_000
HALF_WIDTH = 0.1
PRECISION = math.log2(1 + HALF_WIDTH)


def load(folder: Path) -> CausalTarget:
    """Load the demo's model."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from leakage_tasks.models import register

    register()
    return CausalTarget(
        AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False).eval(),
        AutoTokenizer.from_pretrained(folder, trust_remote_code=False),
    )


def measure(target: CausalTarget, canary: Canary, rounds: int, budget: int) -> dict[str, Any]:
    """Rank one secret ``rounds`` times."""
    findings: list[Finding] = [
        run_attack("exposure", target, [canary], budget=budget, values={"precision": PRECISION})[0]
        for _ in range(rounds)
    ]
    best = min(findings, key=lambda finding: finding.seconds)
    half = None
    if best.rank and best.rank_low is not None and best.rank_high is not None:
        half = (best.rank_high - best.rank_low) / 2 / best.rank
    precise = best.method == "exact" or (half is not None and bool(half <= HALF_WIDTH))
    return {
        "canary": canary.id,
        "repetitions": canary.repetitions if canary.planted else 0,
        "method": best.method,
        "rank": best.rank,
        "interval": None if half is None else [best.rank_low, best.rank_high],
        "relative_half_width": half,
        "seconds": best.seconds,
        "rounds": [finding.seconds for finding in findings],
        "model_calls": best.model_calls,
        "met": precise and best.seconds < SECONDS and best.model_calls < CALLS,
    }


def main() -> None:
    """Measure every canary and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=ROOT / "runs" / "demo" / "model")
    parser.add_argument("--canaries", type=Path, default=ROOT / "runs" / "demo" / "canaries.jsonl")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--budget", type=int, default=50_000, help="approximate number of sequences to score per canary"
    )
    arguments = parser.parse_args()
    if not arguments.model.is_dir():
        sys.exit(f"{arguments.model}: no model there: run 'make demo' first, or give --model and --canaries")
    target = load(arguments.model)
    canaries = [canary for canary in read_manifest(arguments.canaries) if canary.kind != "supporting"]
    results = [measure(target, canary, arguments.rounds, arguments.budget) for canary in canaries]
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()

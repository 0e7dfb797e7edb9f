"""Cost of the lower bound on near-verbatim extraction, compared with sampling of an equal error. Prints JSON.

The bound's error is the amount by which a search with a much wider beam exceeds it; the true error may be larger, and
then fewer draws suffice. The share of the draws checks this. Sampling of an equal error needs
p (1 − p) / error² draws, whose share within the edit distance has this error as its standard error. Costs are numbers
of next-token distributions, without those of equal beginnings, which the sampler computes once. If more draws are
needed than were made, the draws that were made count, so the ratio is a lower bound. Goal: a tenth of the cost.

The model is a small one that is trained here on pairs, or ``--model`` with pairs from the text ``--data``. Of the text,
the pairs with the likeliest suffixes are compared, since costs mean little for suffixes that no draw resembles.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks import ROOT
from leakage_tasks.attacks.suffix.attack import uniforms
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.pairs import Pair
from leakage_tasks.pairs.source import Source, read_pairs
from leakage_tasks.research.victims.pair_lm import PairRecipe, lab_pair_lm
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.sampled_suffixes import SampledSuffixes
from leakage_tasks.targets.suffix.target import CausalSuffixes

LAB = PairRecipe(public=False, pairs=120, layers=2, hidden=128, epochs=40, until=0.25, filler=(0, 8))
"""Recipe of the small model; training takes half a minute."""
ROUNDING = 1e-6
"""Smallest error of a bound, by rounding."""
EXTRACTABLE = 0.001
"""Smallest probability of a near-verbatim draw for which costs are compared."""


def distributions(drawn: SampledSuffixes, draws: int) -> int:
    """Return the number of distributions that the first ``draws`` draws need: one for each distinct beginning."""
    length = drawn.tokens.shape[1]
    return 1 + sum(len(drawn.first(draws, size)[0]) for size in range(1, length))


def read_lab(folder: Path) -> tuple[Path, tuple[Pair, ...]]:
    """Return the small model's folder and pairs; it is trained if it is missing."""
    if not (folder / "recipe.json").is_file():
        lab_pair_lm(LAB, folder)
    return folder / "model", read_pairs(Source(str(folder / "pairs"), split="all"))


def likeliest(target: CausalSuffixes, pairs: Sequence[Pair], number: int) -> list[Pair]:
    """Return the pairs whose suffixes the model finds likeliest."""
    prefixes, suffixes = [pair.prefix for pair in pairs], [pair.suffix for pair in pairs]
    costs = [cost.own.sum() for cost in target.score(prefixes, suffixes, DecodingConfig())]
    return [pairs[index] for index in np.argsort(costs, kind="stable")[:number]]


def compare(target: CausalSuffixes, pairs: Sequence[Pair], options: argparse.Namespace) -> dict[str, Any]:
    """Compute bounds and draws for all pairs and compare their costs."""
    scheme = DecodingConfig(temperature=options.temperature, top_p=options.top_p, top_k=options.top_k)
    prefixes, suffixes = [pair.prefix for pair in pairs], [pair.suffix for pair in pairs]
    edits = len(suffixes[0]) // 10
    started = time.perf_counter()
    bounds = target.near(prefixes, suffixes, scheme, edits, options.width)
    seconds = time.perf_counter() - started
    wide = target.near(prefixes, suffixes, scheme, edits, options.reference)
    exact = np.exp2([-cost.drawn.sum() for cost in target.score(prefixes, suffixes, scheme) if cost.drawn is not None])
    started = time.perf_counter()
    drawn = target.draw(prefixes, np.stack([uniforms(0, pair, options.samples) for pair in pairs]), scheme)
    drawing = time.perf_counter() - started
    near = [
        np.array([Levenshtein.distance(row, suffix) <= edits for row in draws.tokens.tolist()])
        for draws, suffix in zip(drawn, suffixes, strict=True)
    ]
    shares = np.array([hits[draws.of_draw].mean() for hits, draws in zip(near, drawn, strict=True)])
    low, high, best = (np.exp2([-bits for bits in column]) for column in _columns(bounds, wide))
    nodes = np.array([bound.nodes for bound in bounds])
    return {
        "pairs": len(pairs),
        "edits": edits,
        "scheme": str(scheme),
        "beam": options.width,
        "p_z": _mean(exact),
        "p_near": _mean(low),
        "p_near_high": _mean(high),
        f"p_near of a beam of {options.reference}": _mean(best),
        f"share near of {options.samples} draws": _mean(shares),
        "its standard error": _mean(np.sqrt(np.sum(shares * (1 - shares) / options.samples)) / len(shares)),
        "distributions of a pair": round(float(nodes.mean())),
        "of its draws": round(float(np.mean([distributions(draws, options.samples) for draws in drawn]))),
        "seconds": {"bounds": round(seconds, 1), "draws": round(drawing, 1)},
        "equal error": _costs(low, best, nodes, drawn),
    }


def _columns(bounds: Sequence[Any], wide: Sequence[Any]) -> list[list[float]]:
    return [[each.bits for each in bounds], [each.high_bits for each in bounds], [each.bits for each in wide]]


def _mean(values: Any) -> float:
    return float(f"{np.mean(values):.4g}")


def _costs(low: FloatArray, best: FloatArray, nodes: IntArray, drawn: Sequence[SampledSuffixes]) -> dict[str, Any]:
    """Compare the costs of bounds ``low`` with those of draws, for suffixes with a sufficient probability ``best``."""
    chosen = np.flatnonzero(best >= EXTRACTABLE)
    if not len(chosen):
        return {"pairs": 0}
    error = np.maximum(best - low, ROUNDING)
    needed = np.ceil(best * (1 - best) / error**2)
    made = [min(int(needed[index]), len(drawn[index].of_draw)) for index in chosen]
    costs = np.array([distributions(drawn[index], number) for index, number in zip(chosen, made, strict=True)])
    ratios, length = costs / nodes[chosen], drawn[0].tokens.shape[1]
    return {
        "pairs": len(chosen),
        "error of the bound, mean": _mean(error[chosen]),
        "draws needed, median": float(np.median(needed[chosen])),
        "pairs for which more draws were needed than made": int(np.sum(needed[chosen] > made)),
        "times as many distributions, at least": round(float(costs.sum() / nodes[chosen].sum()), 1),
        "median of pairs, at least": round(float(np.median(ratios)), 1),
        "times as many as separate draws, median": _mean(np.median(needed[chosen] * length / nodes[chosen])),
    }


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", type=Path, default=ROOT / "runs" / "near-lab", help="folder of the small model")
    parser.add_argument("--model", help="a causal model")
    parser.add_argument("--data", help="text for --model")
    parser.add_argument("--suffix-length", type=int, default=50, help="tokens of a suffix of --data")
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--reference", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-p", type=float, default=0.7)
    parser.add_argument("--top-k", type=int, default=0)
    options = parser.parse_args()
    if options.model:
        source = Source(options.data, split="all", tokenizer=options.model, suffix_length=options.suffix_length)
        name, pairs = Path(options.model), read_pairs(source)
    else:
        name, pairs = read_lab(options.lab)
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32, trust_remote_code=False).eval()
    target = CausalSuffixes(CausalTarget(model, AutoTokenizer.from_pretrained(name, trust_remote_code=False)))
    if options.model:
        chosen = likeliest(target, pairs, options.pairs)
    else:
        chosen = [pairs[index] for index in np.linspace(0, len(pairs) - 1, options.pairs).astype(int)]
    print(json.dumps({"threads": torch.get_num_threads(), **compare(target, chosen, options)}, indent=1))


if __name__ == "__main__":
    main()

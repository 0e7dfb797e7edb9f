"""Accuracy of estimated ranks of secrets that a model partly knows, compared with exact counts. Prints a table.

``python -m benchmarks.half_known [--epochs 5 6 7] [--budget 10000]`` trains The Secret Sharer's LSTM (2 × 200) on
100,000 characters of Python's help text that contain a number of nine digits five times. After each of these epochs it
estimates the ranks of the number and of variants with up to four changed digits, with three seeds each. The reference
is an exact count if that takes at most :data:`COUNT` sequences. Exits with 1 if significantly fewer than 95 % of the
intervals contain the true rank (level 1 %).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats

from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.secret_sharer.experiment import (
    CHARACTERS,
    SMALL,
    Secrets,
    planted,
    text_of,
    tokenizer_for,
)
from leakage_tasks.research.victims.language_model import LanguageModelRecipe, train_lm
from leakage_tasks.targets import CausalTarget

VARIANTS, CHANGED, SEEDS, COUNT = 25, 5, 3, 2_000_000
Pair = tuple[float, Finding]
"""A true rank and a finding."""


def main() -> None:
    """Train, measure after each of the given epochs, and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--epochs", type=int, nargs="+", default=[5, 6, 7])
    parser.add_argument("--budget", type=int, default=10_000)
    options = parser.parse_args()
    (canaries,) = Secrets().canaries(0)
    clean = text_of(SMALL)
    tokenizer = tokenizer_for(clean, canaries, CHARACTERS)
    recipe = LanguageModelRecipe(**SMALL.recipe(epochs=max(options.epochs)))
    print("| epoch | exposure, in truth | counted | estimates | bounds | intervals that hold | error, RMS bits |")
    print("|---:|---|---:|---:|---:|---:|---:|")
    wrong: list[bool] = []

    def on_epoch(epoch: int, model: Any, _: Any) -> None:
        if epoch in options.epochs:
            pairs = list(measured(CausalTarget(model, tokenizer), canaries[0], options.budget))
            wrong.append(line(epoch, pairs))

    train_lm(planted(clean.training, canaries, 0), recipe, tokenizer=tokenizer, on_epoch=on_epoch)
    raise SystemExit(any(wrong))


def measured(target: CausalTarget, secret: Canary, budget: int) -> Iterator[Pair]:
    """Yield true ranks of variants of the secret with their findings."""
    for canary in variants(secret):
        try:
            (true,) = run_attack("exposure", target, [canary], budget=COUNT, values={"method": "exact"})
        except OptionError:
            continue
        for seed in range(SEEDS):
            (finding,) = run_attack("exposure", target, [canary], budget=budget, seed=seed)
            yield float(true.rank or 1), finding


def variants(secret: Canary) -> Iterator[Canary]:
    """Yield numbers that differ from the secret in a few digits."""
    random = np.random.default_rng(0)
    for turn in range(VARIANTS):
        digits = list(secret.secret)
        for index in random.choice(len(digits), turn % CHANGED, replace=False):
            digits[index] = str(random.integers(10))
        yield Canary(f"v{turn}", secret.template, tuple(digits))


def line(epoch: int, pairs: list[Pair]) -> bool:
    """Print a row and return True if too few intervals hold."""
    if not pairs:
        print(f"| {epoch} | no rank that {COUNT:,} sequences count | | | | | |", flush=True)
        return False
    size = math.log2(10**9)
    exposures = [size - math.log2(rank) for rank, _ in pairs]
    exact = sum(finding.method == "exact" for _, finding in pairs)
    drawn = [(rank, finding) for rank, finding in pairs if finding.method != "exact"]
    errors = [
        math.log2(finding.rank / rank) for rank, finding in drawn if finding.method == "estimated" and finding.rank
    ]
    bounds = sum(finding.method == "lower_bound" for _, finding in drawn)
    held = sum(
        (finding.rank_low or 1) * (1 - 1e-9) <= rank <= (finding.rank_high or rank) * (1 + 1e-9)
        for rank, finding in drawn
    )
    error = math.sqrt(np.mean(np.square(errors))) if errors else math.nan
    print(
        f"| {epoch} | {min(exposures):.1f} to {max(exposures):.1f} | {exact} | {len(errors)} | {bounds} | "
        f"{held} of {len(drawn)} | {error:.2f} |",
        flush=True,
    )
    return len(drawn) > 0 and bool(stats.binomtest(held, len(drawn), 0.95, alternative="less").pvalue < 0.01)


if __name__ == "__main__":
    main()

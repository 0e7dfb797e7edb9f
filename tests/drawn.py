"""Made-up draws and readings for tests of what is computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from leakage_tasks.attacks.suffix.candidates import Candidates
from leakage_tasks.attacks.suffix.finding import HEADLINE, Choice, SelectedView, SuffixFinding, SuffixView

EACH = ("tokens", "counts", "bits", "zlib", "lowest", "margin", "entropy", "lowered", "compared")


def candidates(seed: int, number: int = 6, length: int = 5, spread: float = 20.0) -> Candidates:
    """``number`` different suffixes with everything told; their bits are up to ``spread`` a token."""
    rng = np.random.default_rng(seed)
    tokens = np.array([np.unravel_index(place, (9,) * length) for place in rng.permutation(9**length)[:number]])
    return Candidates(
        tokens=tokens.astype(np.int64),
        counts=rng.integers(1, 30, number),
        bits=rng.uniform(0, spread * length, number),
        zlib=rng.integers(9, 60, number),
        lowest=rng.uniform(0, 1, number),
        margin=rng.uniform(-1, 1, number),
        entropy=rng.uniform(0, 10, number),
        lowered=rng.uniform(0, spread, number),
        compared=rng.uniform(0, spread, number),
    )


def reordered(given: Candidates, order: Sequence[int]) -> Candidates:
    """The same candidates in another order."""
    rows = np.asarray(order)
    return replace(given, **{name: column[rows] for name in EACH if (column := getattr(given, name)) is not None})


def validation(pairs: int, seed: int, length: int = 10, draws: int = 100) -> list[tuple[Candidates, tuple[int, ...]]]:
    """Draws where right suffixes come often, while their likelihood says as much about the prefix as about them."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(pairs):
        number = int(rng.integers(2, 12))
        tokens = rng.permutation(10_000)[: number * length].reshape(number, length)
        right = 0 if rng.random() < 0.6 else None
        ease = rng.uniform(0.2, 3.0)
        weights = rng.gamma(1.0, size=number) + 0.05
        weights[0] *= 8 if right == 0 else 1
        counts = 1 + rng.multinomial(draws - number, weights / weights.sum())
        bits = length * ease * rng.uniform(0.6, 1.4, number)
        told = {name: rng.uniform(0, 1, number) for name in ("lowest", "margin", "entropy")}
        drawn = Candidates(tokens, counts, bits, rng.integers(20, 80, number), **told)
        truth = tokens[0] if right == 0 else tokens[0] + 1
        found.append((drawn, tuple(int(token) for token in truth)))
    return found


def reading(
    pair: int = 0,
    *,
    kind: str = "headline",
    right: bool = True,
    confidence: float = 0.5,
    place: int | None = 1,
    p_z_bits: float | None = 3.0,
    reachable: bool | None = True,
    other: Choice | None = None,
    **finding: Any,
) -> SelectedView:
    """A reading of one pair with 20 tokens; a wrong guess is wrong in a quarter of them."""
    bits = finding.pop("bits", 4.0)
    own = Choice(confidence, confidence, place, 0.0 if right else 0.25, 7, bits)
    choices = {"calibrated": own} | ({"zlib": other} if other else {})
    samples = finding.pop("samples", 40)
    further = ("base_", "near_", "top1")
    of_view = {name: finding.pop(name) for name in list(finding) if name.startswith(further)}
    view = SuffixView(50, 20, samples, 8, finding.pop("own_bits", 5.0), p_z_bits, reachable, choices, **of_view)
    found = SuffixFinding(pair, "sample", samples, "calibrated", {HEADLINE: view}, **finding)
    return SelectedView(pair, kind, samples, view, other if other and kind == "confidence" else own, found)

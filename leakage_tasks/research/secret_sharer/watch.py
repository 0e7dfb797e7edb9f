"""Measurements of the canaries of a trained model in The Secret Sharer's studies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log2
from typing import TYPE_CHECKING, Any, Literal

from leakage_tasks.research.framework.registry import Config

if TYPE_CHECKING:
    from leakage_tasks.attacks import Finding
    from leakage_tasks.canaries import Canary
    from leakage_tasks.targets import CausalTarget

DRAWS = 2_000
"""Random fillings for the fit of a skew-normal, if the budget allows."""
WIDTHS = (1, 10, 100)
"""Widths of beam search."""
WIDE_BUDGET = 20
"""Factor on the budget of searches whose cost is measured."""


def observed(
    target: CausalTarget, views: Sequence[Sequence[Canary]], what: Sequence[str], budget: int, seed: int
) -> list[Config]:
    """Return an entry for each canary and attacker's view, with the result of each measure in ``what``."""
    rows: list[Config] = []
    for canaries in views:
        entries: list[Config] = [
            {"canary": canary.id, "known": canary.known, "planted": canary.planted, "copies": canary.repetitions}
            for canary in canaries
        ]
        for name in what:
            for row, value in zip(entries, MEASURES[name](target, canaries, budget, seed), strict=True):
                row[name] = value
        rows += entries
    return rows


Measure = Callable[["CausalTarget", Sequence["Canary"], int, int], Sequence[Any]]


def _attack(
    name: str,
    *,
    goal: Literal["exposure", "extraction"],
    describe: Callable[[Canary, Finding], Any],
    wide: bool = False,
    **settings: Any,
) -> Measure:
    """Return a measure that applies ``describe`` to an attack's findings; None for controls in extraction."""

    def measure(target: CausalTarget, canaries: Sequence[Canary], budget: int, seed: int) -> list[Any]:
        from leakage_tasks.attacks import run_attack

        attacked = [canary for canary in canaries if canary.planted or goal == "exposure"]
        spent = budget * (WIDE_BUDGET if wide else 1)
        values = {key: min(value, budget - 1) if key == "draws" else value for key, value in settings.items()}
        findings = run_attack(name, target, attacked, budget=spent, seed=seed, goal=goal, values=values)
        described = {canary.id: describe(canary, finding) for canary, finding in zip(attacked, findings, strict=True)}
        return [described.get(canary.id) for canary in canaries]

    return measure


def _exposure(canary: Canary, finding: Finding) -> Config:
    """Return exposure in bits with its interval and method."""
    ends = (finding.rank_high, finding.rank_low)
    low, high = (finding.exposure if end is None else finding.log2_size - log2(end) for end in ends)
    if finding.method == "extrapolated":
        low, high = (finding.extra[f"extrapolated_{end}"] for end in ("low", "high"))
    extra: Config = {name: finding.extra[name] for name in ("p_value", "rejected") if name in finding.extra}
    cost = {"log_perplexity": finding.log_perplexity, "calls": finding.model_calls}
    return {"bits": finding.exposure, "low": low, "high": high, "method": finding.method, **cost, **extra}


def _search(canary: Canary, finding: Finding) -> Config:
    """Return the rank of the secret among the guesses, and the search's cost."""
    extra: Config = {
        name: finding.extra[name] for name in ("nodes", "iterations", "draws", "found_at") if name in finding.extra
    }
    return {"place": finding.place, "proven": finding.proven, "calls": finding.model_calls, **extra}


def _guesses(canary: Canary, finding: Finding) -> list[Config]:
    """Return the likeliest fillings with their log-perplexity and the number of values that differ from the secret."""
    return [
        {
            "bits": guess.score,
            "text": guess.text,
            "wrong": sum(a != b for a, b in zip(guess.filling, canary.secret, strict=True)),
        }
        for guess in finding.guesses
    ]


def _text_costs(target: CausalTarget, canaries: Sequence[Canary], budget: int, seed: int) -> list[list[float] | None]:
    """Return log-perplexities of random fillings for a histogram, for planted canaries only."""
    from leakage_tasks.attacks import run_attack

    planted = [canary for canary in canaries if canary.planted]
    settings = {"histogram": min(DRAWS, budget - 1)}
    findings = run_attack("rank-sample", target, planted, budget=1, seed=seed, values=settings)
    costs = {finding.canary: finding.extra["costs"] for finding in findings}
    return [costs.get(canary.id) for canary in canaries]


def _log_perplexity(target: CausalTarget, canaries: Sequence[Canary], budget: int, seed: int) -> list[float]:
    return [
        float(cost) for cost in target.log_perplexity([canary.attack_space.fill(canary.secret) for canary in canaries])
    ]


_exposures = partial(_attack, goal="exposure", describe=_exposure)
_extraction = partial(_attack, goal="extraction", describe=_search, wide=True)
MEASURES: Mapping[str, Measure] = {
    "log_perplexity": _log_perplexity,
    "exposure": _exposures("exposure"),
    "exact": _exposures("exposure", wide=True, method="exact"),
    "every text": _exposures("rank-sample", wide=True),
    "estimated": _exposures("exposure", method="estimated"),
    "sampled": _exposures("rank-sample"),
    "extrapolated": _exposures("skew-normal", draws=DRAWS),
    "shortest-path": _extraction("shortest-path", stopping="proven"),
    "batched": _extraction("shortest-path", stopping="paper"),
    **{f"beam {width}": _extraction("beam", width=width) for width in WIDTHS},
    "sampling": _extraction("sample-tokens", until="found"),
    "cheapest": _extraction("shortest-path", stopping="proven", describe=_guesses),
    "costs": _text_costs,
}
"""Measures by name. Each takes a target, canaries, a budget and a seed, and returns an entry per canary."""

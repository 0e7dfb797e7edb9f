"""What studies of The Secret Sharer find out about the canaries of a trained model."""

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
"""Random fillings a skew-normal is fitted to, if the budget has room for as many."""
WIDTHS = (1, 10, 100)
"""Of beam search."""
WIDE_BUDGET = 20
"""How many times the usual budget a search may spend: what it takes is what is asked."""


def observed(
    target: CausalTarget, views: Sequence[Sequence[Canary]], what: Sequence[str], budget: int, seed: int
) -> list[Config]:
    """What each measure in ``what`` says of each canary, an entry for each canary and attacker's view."""
    rows: list[Config] = []
    for canaries in views:
        own: list[Config] = [
            {"canary": canary.id, "known": canary.known, "planted": canary.planted, "copies": canary.repetitions}
            for canary in canaries
        ]
        for name in what:
            for row, found in zip(own, MEASURES[name](target, canaries, budget, seed), strict=True):
                row[name] = found
        rows += own
    return rows


Measure = Callable[["CausalTarget", Sequence["Canary"], int, int], Sequence[Any]]


def _attack(
    name: str,
    *,
    goal: Literal["exposure", "extraction"],
    tell: Callable[[Canary, Finding], Any],
    wide: bool = False,
    **settings: Any,
) -> Measure:
    """What ``tell`` makes of an attack's findings; controls are not extracted, so it is None for them."""

    def measure(target: CausalTarget, canaries: Sequence[Canary], budget: int, seed: int) -> list[Any]:
        from leakage_tasks.attacks import run_attack

        aims = [canary for canary in canaries if canary.planted or goal == "exposure"]
        spent = budget * (WIDE_BUDGET if wide else 1)
        own = {key: min(value, budget - 1) if key == "draws" else value for key, value in settings.items()}
        found = run_attack(name, target, aims, budget=spent, seed=seed, goal=goal, settings=own)
        told = {canary.id: tell(canary, finding) for canary, finding in zip(aims, found, strict=True)}
        return [told.get(canary.id) for canary in canaries]

    return measure


def _exposure(canary: Canary, finding: Finding) -> Config:
    """Exposure in bits, with its interval and how it was got."""
    ends = (finding.rank_high, finding.rank_low)
    low, high = (finding.exposure if end is None else finding.log2_size - log2(end) for end in ends)
    if finding.method == "extrapolated":
        low, high = (finding.extra[f"extrapolated_{end}"] for end in ("low", "high"))
    kept: Config = {name: finding.extra[name] for name in ("p_value", "rejected") if name in finding.extra}
    cost = {"log_perplexity": finding.log_perplexity, "calls": finding.model_calls}
    return {"bits": finding.exposure, "low": low, "high": high, "method": finding.method, **cost, **kept}


def _search(canary: Canary, finding: Finding) -> Config:
    """Whether the best guess is the secret, and what it took."""
    kept: Config = {
        name: finding.extra[name] for name in ("nodes", "iterations", "draws", "found_at") if name in finding.extra
    }
    return {"place": finding.place, "proven": finding.proven, "calls": finding.model_calls, **kept}


def _guesses(canary: Canary, finding: Finding) -> list[Config]:
    """The cheapest fillings, right or wrong, with their log-perplexity and how many values differ from the secret's."""
    return [
        {
            "bits": guess.score,
            "text": guess.text,
            "wrong": sum(a != b for a, b in zip(guess.filling, canary.secret, strict=True)),
        }
        for guess in finding.guesses
    ]


def _text_costs(target: CausalTarget, canaries: Sequence[Canary], budget: int, seed: int) -> list[list[float] | None]:
    """Log-perplexities of random fillings, for a histogram, of planted canaries alone."""
    from leakage_tasks.attacks import run_attack

    aims = [canary for canary in canaries if canary.planted]
    settings = {"histogram": min(DRAWS, budget - 1)}
    found = run_attack("sampled", target, aims, budget=1, seed=seed, settings=settings)
    costs = {each.canary: each.extra["costs"] for each in found}
    return [costs.get(canary.id) for canary in canaries]


def _log_perplexity(target: CausalTarget, canaries: Sequence[Canary], budget: int, seed: int) -> list[float]:
    return [float(cost) for cost in target.log_perplexity([each.attack_space.fill(each.secret) for each in canaries])]


_exposures = partial(_attack, goal="exposure", tell=_exposure)
_extraction = partial(_attack, goal="extraction", tell=_search, wide=True)
MEASURES: Mapping[str, Measure] = {
    "log_perplexity": _log_perplexity,
    "exposure": _exposures("exposure"),
    "exact": _exposures("exposure", wide=True, method="exact"),
    "every text": _exposures("sampled", wide=True),
    "estimated": _exposures("exposure", method="estimated"),
    "sampled": _exposures("sampled"),
    "extrapolated": _exposures("skew-normal", draws=DRAWS),
    "shortest-path": _extraction("shortest-path"),
    "batched": _extraction("shortest-path", stopping="paper"),
    **{f"beam {width}": _extraction("beam", width=width) for width in WIDTHS},
    "sampling": _extraction("sampling", until="found"),
    "cheapest": _extraction("shortest-path", tell=_guesses),
    "costs": _text_costs,
}
"""Measures by name: each takes a target, canaries, a budget and a seed, and returns an entry a canary."""

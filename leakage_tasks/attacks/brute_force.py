"""Extraction by enumeration: every filling scored as a whole text."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from leakage_tasks.attacks.explorer import finite, within
from leakage_tasks.attacks.finding import GUESSES, Guess, marked
from leakage_tasks.attacks.registry import Order, register
from leakage_tasks.canaries.spaces import Filling
from leakage_tasks.errors import OptionError
from leakage_tasks.targets.protocols import FloatArray, ScoresSequences

CHUNK = 1024
NO_SCORES = "choose a model with log-likelihoods"


def affordable(order: Order) -> bool:
    """Whether all of R may be scored within the budget."""
    return order.canary.attack_space.size <= order.budget


@register("brute-force", "extraction", ScoresSequences, auto=2, remedy=NO_SCORES, affordable=affordable)
def brute_force(order: Order) -> dict[str, Any]:
    """Every filling scored as a whole text (The Secret Sharer, section 5.1); R must fit ``budget``.

    No tree is walked and no beginning shared, so its nodes are the fillings scored.
    """
    space = order.canary.attack_space
    if not affordable(order):
        raise OptionError(
            f"canary {order.canary.id!r}: attack=brute-force would score {space.size} texts, budget={order.budget}: "
            "raise budget=…, or use a smaller space"
        )
    best: list[Guess] = []
    costs: list[FloatArray] = []
    for fillings, batch in scored(order, space.enumerate()):
        costs.append(batch)
        places = np.argsort(batch, kind="stable")[:GUESSES]
        new = [Guess(fillings[n], space.fill(fillings[n]), float(batch[n])) for n in places]
        best = sorted([*best, *new], key=lambda guess: (guess.score, guess.filling))[:GUESSES]
    every = np.concatenate(costs)
    finite(float(every.sum()))
    own = float(every[space.index(order.canary.secret)])
    rank = int((every <= within(own)).sum())
    found = {"rank": rank, "method": "exact", "log_perplexity": own, "model_calls": len(every), "proven": len(best)}
    return {**found, **marked(best, order.canary.secret), "extra": {"nodes": len(every)}}


def scored(order: Order, fillings: Iterable[Filling]) -> Iterable[tuple[list[Filling], FloatArray]]:
    """Fillings in batches, each with its log-perplexities."""
    source = iter(fillings)
    while batch := list(islice(source, CHUNK)):
        yield batch, order.target.log_perplexity([order.canary.attack_space.fill(filling) for filling in batch])

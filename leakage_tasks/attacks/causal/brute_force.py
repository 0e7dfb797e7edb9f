"""Extraction by enumeration: every filling scored as a whole text."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import islice

import numpy as np

from leakage_tasks.attacks.causal.search_tree import finite, within
from leakage_tasks.attacks.finding import GUESSES, AttackResult, Guess, grade_guesses
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.canaries.spaces import Filling
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError
from leakage_tasks.targets.protocols import ScoresSequences, ScoresUpTo

CHUNK = 1024
LARGER_CHUNK = 1 << 14
"""Of texts to be scored up to a limit, which share the more work the more there are."""
NO_SCORES = "choose a model with log-likelihoods"


def affordable(order: AttackRequest) -> bool:
    """Whether all of R may be scored within the budget."""
    return order.canary.attack_space.size <= order.budget


@register("brute-force", "extraction", ScoresSequences, auto=2, remedy=NO_SCORES, affordable=affordable)
def brute_force(order: AttackRequest) -> AttackResult:
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
    for fillings, batch in scored(order, space.enumerate(), up_to_secret(order), GUESSES):
        costs.append(batch)
        places = np.argsort(batch, kind="stable")[:GUESSES]
        new = [Guess(fillings[n], space.fill(fillings[n]), float(batch[n])) for n in places]
        best = sorted([*best, *new], key=lambda guess: (guess.score, guess.filling))[:GUESSES]
    every = np.concatenate(costs)
    finite(float(every.sum()))
    own = float(every[space.index(order.canary.secret)])
    rank = int((every <= within(own)).sum())
    found: AttackResult = {"rank": rank, "method": "exact", "log_perplexity": own, "model_calls": len(every)}
    told = grade_guesses(best, order.canary.secret)
    return {**found, **told, "proven": len(best), "extra": {"nodes": len(every)}}


def up_to_secret(order: AttackRequest) -> float:
    """What a filling may cost to rank no later than the secret, where the target makes use of it; else infinity."""
    target, canary = order.target, order.canary
    if not isinstance(target, ScoresUpTo):
        return math.inf
    own = target.log_perplexity_up_to([canary.attack_space.fill(canary.secret)], math.inf)
    return within(finite(float(own[0])))


def scored(
    order: AttackRequest, fillings: Iterable[Filling], most: float = math.inf, cheapest: int = 0
) -> Iterable[tuple[list[Filling], FloatArray]]:
    """Fillings in batches, each with its log-perplexities.

    Those above ``most`` bits, the ``cheapest`` of the batch excepted, need not be exact, see
    :class:`~leakage_tasks.targets.protocols.ScoresUpTo`.
    """
    source, target = iter(fillings), order.target
    limited = most < math.inf and isinstance(target, ScoresUpTo)
    while batch := list(islice(source, LARGER_CHUNK if limited else CHUNK)):
        texts = [order.canary.attack_space.fill(filling) for filling in batch]
        yield batch, target.log_perplexity_up_to(texts, most, cheapest) if limited else target.log_perplexity(texts)

"""Expected costs of attacks, from the costs of a few random fillings of each canary, and a pilot drawn by them.

A search for a secret that costs less than most fillings reads many times more rows than a search for a usual one. A
pilot drawn in proportion to expected costs contains the searches that take most of a run.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import Finding
from leakage_tasks.attacks.selection import AttackSettings
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.arrays import FloatArray

FILLINGS = 8
"""Number of random fillings of each canary whose costs are compared with its secret's."""
SMALLEST_SHARE, POWER = 1 / 64, 0.65
"""Smallest share of fillings that makes a difference, and the power of the share with which the rows of an estimate
decrease. On small models and SmolLM2, powers from 0.5 to 0.8 predict the rows of a run about as well; lower powers draw
cheaper pilots."""
RANK_PER_COST = 200
"""A search reads about as many rows as the secret's rank, and the cheapest estimates some 200 rows."""


class ExpectedCosts(NamedTuple):
    """The expected costs of an attack on one canary, relative to the cheapest attacks of the same goal."""

    exposure: float
    extraction: float


@dataclass(frozen=True)
class Pilot:
    """The canaries that a pilot attacks, and the chances with which they were drawn, by id; empty if equal.

    ``chance_error`` is the relative standard error of the mean expected cost if only a part of the canaries has one.
    """

    canaries: Sequence[Canary]
    chances: Mapping[str, float] = field(default_factory=dict)
    chance_error: float = 0.0


def comparison(seed: int, context: Context) -> AttackSettings:
    """Return the attack that scores a secret and :data:`FILLINGS` random fillings as whole texts."""
    return AttackSettings("rank-sample", budget=1, seed=seed, values={"histogram": FILLINGS}, context=context)


def expected_costs(finding: Finding) -> ExpectedCosts:
    """Return the expected costs of attacks, from a :func:`comparison`'s finding.

    The share of fillings that cost less than the secret is the chance of a lower value in Student's prediction from the
    costs of the random fillings. The rows of an extraction increase for secrets near the ten cheapest fillings, and
    decrease for memorized secrets, from which the share does not distinguish them: a pilot needs the former.
    """
    costs, secret = np.array(finding.extra["costs"]), finding.log_perplexity
    spread = float(costs.std(ddof=1)) if len(costs) > 1 else 0.0
    if secret is None or not spread:
        return ExpectedCosts(1.0, 1.0)
    error = spread * np.sqrt(1 + 1 / len(costs))
    share = float(student.cdf((secret - costs.mean()) / error, len(costs) - 1))
    extraction = (share + SMALLEST_SHARE) ** -POWER
    # A memorized secret of a low rank is found before an estimate starts.
    return ExpectedCosts(min(extraction, 1 + share * 2.0**finding.log2_size / RANK_PER_COST), extraction)


def draw_pilot(canaries: Sequence[Canary], number: int, expected: Mapping[str, float], seed: int | str) -> Pilot:
    """Draw a random sample of canaries without natural ones, or take all of them if there are at most ``number``.

    If more canaries than that have ``expected`` costs, by id, the sample is drawn from them in proportion to these
    (systematic sampling), else from all with equal chances. The cost of a search reveals how well the model knows a
    secret, so natural secrets are left out.
    """
    eligible = [canary for canary in canaries if canary.kind != NATURAL]
    known = [canary for canary in eligible if canary.id in expected]
    stream = random.Random(f"plan:{seed}")
    if len(known) <= number:
        return Pilot(stream.sample(eligible, min(number, len(eligible))))
    # Equal costs are in random order: a manifest may alternate between numbers of copies.
    random.Random(f"order:{seed}").shuffle(known)
    known.sort(key=lambda canary: expected[canary.id])
    costs = np.array([expected[canary.id] for canary in known])
    chances = _chances(costs, number)
    indices = np.searchsorted(np.cumsum(chances), stream.random() + np.arange(number))
    drawn = [known[index] for index in np.minimum(indices, len(known) - 1)]
    # If the time ends, the canaries that were attacked must be random ones.
    stream.shuffle(drawn)
    compared = len(known) / len(eligible)
    error = float(costs.std(ddof=1) / costs.mean()) * np.sqrt((1 - compared) / len(known))
    return Pilot(drawn, {canary.id: chance * compared for canary, chance in zip(known, chances, strict=True)}, error)


def _chances(costs: FloatArray, number: int) -> list[float]:
    """Return the chances of members to be in a sample of ``number``, in proportion to their positive ``costs`` ``[n]``,
    at most 1."""
    certain = np.zeros(len(costs), dtype=bool)
    while True:
        left = number - int(certain.sum())
        chances = np.where(certain, 1.0, left * costs / costs[~certain].sum())
        if (chances <= 1).all():
            return [float(chance) for chance in chances]
        certain |= chances > 1

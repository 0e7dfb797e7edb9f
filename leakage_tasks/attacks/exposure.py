"""Exposure of the secret: exact where pruned search can afford it, else estimated with its interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from leakage_tasks.attacks.brute_force import NO_SCORES, affordable
from leakage_tasks.attacks.counting import Draws, count_exactly, draw
from leakage_tasks.attacks.explorer import Explorer, within
from leakage_tasks.attacks.finding import Guess, marked
from leakage_tasks.attacks.registry import Order, Setting, register
from leakage_tasks.attacks.scoring import HISTOGRAM, sampled, with_text_costs
from leakage_tasks.errors import OptionError, TargetError
from leakage_tasks.intervals import at_most, positive_mean
from leakage_tasks.targets.protocols import PredictsNextToken, ScoresSequences

PILOT = 256
PILOT_POWER = 0.75
PRECISION = 0.1
"""Half the interval's width to aim for, as a share of the rank."""
MOST_DRAWS = 200_000


METHOD = Setting(
    "method",
    str,
    "auto",
    "how the rank is got: exact counts by pruned search or fails, estimated draws, auto does what the budget allows",
    choices=("auto", "exact", "estimated"),
)


@register(
    "exposure", "exposure", PredictsNextToken, ScoresSequences, auto=1, remedy=NO_SCORES, settings=(METHOD, HISTOGRAM)
)
def exposure(order: Order) -> dict[str, Any]:
    """Rank of the secret by what it costs the model (The Secret Sharer, Definitions 2 and 3).

    256 draws tell how many nodes an exact count would have to read. If ``budget`` allows it, the count is made;
    if not, more draws are, until the 95 % interval is within a tenth of the rank or ``budget`` nodes are read.
    512 draws at most go beyond the budget: those before a count, and the 256 that an estimate has at least after them,
    whatever was spent. ``method=exact`` counts without a look, ``estimated`` never does.
    A model that only scores whole texts gets the ``sampled`` attack. ``histogram`` is as for
    :func:`~leakage_tasks.attacks.scoring.random_fillings`. Raises OptionError where ``exact`` exceeds ``budget``, and
    TargetError for ``estimated`` on a model without next-token probabilities.
    """
    method = order.settings[METHOD.name]
    if not isinstance(order.target, PredictsNextToken):
        return _of_whole_texts(order, method)
    explorer = Explorer(order.target, order.canary.attack_space)
    secret = explorer.path_of(order.canary.secret)
    cost = explorer.follow(secret)
    bound = within(cost)
    if method == "exact":
        ranked = _counted(explorer, secret, bound, order)
        if ranked is None:
            raise _beyond_budget(order)
    else:
        ranked = _counted_or_drawn(explorer, secret, bound, order, count=method == "auto")
    found = {"log_perplexity": explorer.prefix_cost + cost, **ranked, "model_calls": explorer.calls}
    return with_text_costs(found, order)


def _of_whole_texts(order: Order, method: str) -> dict[str, Any]:
    """The rank on a model that only scores whole texts."""
    if method == "estimated":
        raise TargetError(
            "method=estimated draws by next-token probabilities, which this model does not give: use attack=sampled"
        )
    if method == "exact" and not affordable(order):
        raise _beyond_budget(order)
    return sampled(order)


def _beyond_budget(order: Order) -> OptionError:
    return OptionError(
        f"canary {order.canary.id!r}: method=exact would score more than budget={order.budget} sequences: raise "
        "budget=…, or leave method=auto, which estimates instead"
    )


def _counted(explorer: Explorer, secret: tuple[int, ...], bound: float, order: Order) -> dict[str, Any] | None:
    """The exact rank, or None where it takes more than ``budget`` sequences."""
    count = count_exactly(explorer, secret, bound, order.budget)
    if count is None:
        return None
    space = order.canary.attack_space
    guesses = [Guess(each.filling, space.fill(each.filling), each.score) for each in count.cheapest]
    nodes = {"extra": {"nodes": explorer.nodes}}
    return {"rank": count.others + 1, "method": "exact", **nodes, **marked(guesses, order.canary.secret)}


def _counted_or_drawn(
    explorer: Explorer, secret: tuple[int, ...], bound: float, order: Order, *, count: bool
) -> dict[str, Any]:
    """The exact rank if it is to ``count`` and a first few draws say that ``budget`` allows it, else an estimate."""
    limit = explorer.calls + order.budget
    pilot = draw(explorer, secret, bound, PILOT, f"{order.seed}:0", PILOT_POWER)
    affords = count and pilot.nodes.mean() <= order.budget
    counted = _counted(explorer, secret, bound, order) if affords else None
    return _estimate(explorer, secret, bound, pilot, order, limit) if counted is None else counted


def _estimate(
    explorer: Explorer, secret: tuple[int, ...], bound: float, pilot: Draws, order: Order, limit: int
) -> dict[str, Any]:
    """The rank's estimate from as many draws as its precision needs and the budget allows."""
    start, power = explorer.calls, pilot.best_power
    # The pilot's cost a draw is the most a draw will take: the more there are, the more of them share nodes.
    wanted = max(PILOT, min(4 * PILOT, (limit - start) * PILOT // start))
    others, turn = np.zeros(0), 0
    while wanted > 0:
        turn += 1
        fresh = draw(explorer, secret, bound, wanted, f"{order.seed}:{turn}", power).others
        others = np.concatenate([others, fresh])
        each = (explorer.calls - start) / len(others)
        affordable = int((limit - explorer.calls) / max(each, 1e-9))
        wanted = _whole_turns(min(_needed(others) - len(others), 2 * len(others), MOST_DRAWS - len(others), affordable))
    # The pilot leaned otherwise and spreads more; its draws count only where no other met what one of them met.
    missed = pilot.others.any() and not others.any()
    return _summary(np.concatenate([pilot.others, others]) if missed else others, bound, order.canary.attack_space.size)


def _whole_turns(draws: int) -> int:
    """Draws rounded to so coarse a grid that the last digit of a cost does not change their number."""
    return max(0, round(draws / PILOT)) * PILOT


def _needed(others: np.ndarray) -> int:
    """Draws it takes to bring the interval within PRECISION, from those there are."""
    mean = others.mean()
    if not mean:
        return 2 * len(others)
    relative = others.std(ddof=1) / (mean + 1)
    return int(np.ceil(1.1 * (1.96 * relative / PRECISION) ** 2))


def _summary(others: np.ndarray, bound: float, size: int) -> dict[str, Any]:
    extra = {"extra": {"draws": len(others)}}
    if others.any():
        low, high = (min(1 + end, size) for end in positive_mean(others))
        return {"rank": min(1 + others.mean(), size), "rank_low": low, "rank_high": high, "method": "estimated"} | extra
    # Without a hit the draws after the pilot's were in proportion to the model's probabilities, so that each filling
    # as cheap as the secret had a chance of 2^−bound or more.
    high = float(min(1 + np.exp2(min(bound, 1023.0)) * at_most(0, len(others)), size))
    return {"rank": high, "rank_low": 1.0, "rank_high": high, "method": "lower_bound"} | extra

"""Exposure of the secret: exact where pruned search can afford it, else estimated with its interval."""

from __future__ import annotations

from leakage_tasks.attacks.causal.brute_force import NO_SCORES, affordable
from leakage_tasks.attacks.causal.rank_counting import count_exactly
from leakage_tasks.attacks.causal.rank_estimate import PRECISION, RankEstimate
from leakage_tasks.attacks.causal.sampled import HISTOGRAM, ranked_by_sample, sampled, with_text_costs
from leakage_tasks.attacks.causal.search_tree import SearchTree, within
from leakage_tasks.attacks.finding import AttackResult, Guess, grade_guesses
from leakage_tasks.attacks.registry import AttackOption, AttackRequest, register
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.targets.protocols import PredictsNextToken, ScoresSequences

WORTH_COUNTING, FOR_COUNTING = 0.5, 0.75
"""Shares of what is left of the budget: a count is tried if it is likely to take no more than the first, and given up
at the second, so that an estimate can still be made."""
METHOD = AttackOption(
    "method",
    str,
    "auto",
    "how the rank is got: exact counts by pruned search or fails, estimated draws, auto does what the budget allows",
    choices=("auto", "exact", "estimated"),
)


@register(
    "exposure",
    "exposure",
    PredictsNextToken,
    ScoresSequences,
    auto=1,
    remedy=NO_SCORES,
    settings=(METHOD, PRECISION, HISTOGRAM),
)
def exposure(order: AttackRequest) -> AttackResult:
    """Rank of the secret by what it costs the model (The Secret Sharer, Definitions 2 and 3).

    A few draws tell how many nodes an exact count would have to read. If ``budget`` allows it, the count is made; if
    not, more draws are, enough to bring the 95 % interval of the exposure to ± ``precision`` bits, or as many as the
    budget pays for. Where too little stands behind an estimate, as its effective sample size says, the rank is a bound,
    which holds whatever the costs are like; where the budget pays for hardly any draws, it goes to a uniform sample of
    whole texts. ``budget`` counts all sequences but, where it is smaller, those that read the secret itself.
    ``method=exact`` counts without a look, ``estimated`` never does. A model that only scores whole texts gets the
    ``sampled`` attack. ``histogram`` is as for :func:`~leakage_tasks.attacks.causal.sampled.random_fillings`. Raises
    OptionError where ``exact`` exceeds ``budget``, and TargetError for ``estimated`` on a model without next-token
    probabilities.
    """
    method = order.settings[METHOD.name]
    if not isinstance(order.target, PredictsNextToken):
        return _of_whole_texts(order, method)
    explorer = SearchTree(order.target, order.canary.attack_space)
    secret = explorer.path_of(order.canary.secret)
    cost = explorer.follow(secret)
    bound = within(cost)
    if method == "exact":
        ranked = _counted(explorer, secret, bound, order, order.budget)
        if ranked is None:
            raise _beyond_budget(order)
    else:
        ranked = _counted_or_drawn(explorer, secret, bound, order, count=method == "auto")
    found: AttackResult = {"model_calls": explorer.calls, **ranked, "log_perplexity": explorer.prefix_cost + cost}
    return with_text_costs(found, order)


def _of_whole_texts(order: AttackRequest, method: str) -> AttackResult:
    """The rank on a model that only scores whole texts."""
    if method == "estimated":
        raise TargetError(
            "method=estimated draws by next-token probabilities, which this model does not give: use attack=sampled"
        )
    if method == "exact" and not affordable(order):
        raise _beyond_budget(order)
    return sampled(order)


def _beyond_budget(order: AttackRequest) -> OptionError:
    return OptionError(
        f"canary {order.canary.id!r}: method=exact would score more than budget={order.budget} sequences: raise "
        "budget=…, or leave method=auto, which estimates instead"
    )


def _counted(
    explorer: SearchTree, secret: tuple[int, ...], bound: float, order: AttackRequest, limit: int
) -> AttackResult | None:
    """The exact rank, or None where more than ``limit`` sequences in all would have to be scored."""
    count = count_exactly(explorer, secret, bound, limit - explorer.calls)
    if count is None:
        return None
    space = order.canary.attack_space
    guesses = [Guess(each.filling, space.fill(each.filling), each.score) for each in count.cheapest]
    told = grade_guesses(guesses, order.canary.secret)
    return {**told, "rank": count.others + 1, "method": "exact", "extra": {"nodes": explorer.nodes}}


def _counted_or_drawn(
    explorer: SearchTree, secret: tuple[int, ...], bound: float, order: AttackRequest, *, count: bool
) -> AttackResult:
    """The exact rank if it is to ``count`` and a few draws say that the budget pays for it, else an estimate.

    Where the budget pays for too few draws, it goes to whole texts.
    """
    precision = order.settings[PRECISION.name]
    estimate = RankEstimate(explorer, secret, bound, order.seed, order.budget, precision)
    nodes = estimate.explore()
    left = order.budget - explorer.calls
    if count and nodes <= left * WORTH_COUNTING:
        counted = _counted(explorer, secret, bound, order, explorer.calls + int(left * FOR_COUNTING))
        if counted is not None:
            return counted
    found = estimate.result()
    if found is not None:
        return found
    found = ranked_by_sample(order, max(0, order.budget - explorer.calls - 1))
    return {**found, "model_calls": found["model_calls"] + explorer.calls}

"""Ranks from scores of whole texts: all of R where it fits the budget, else a uniform sample of it."""

from __future__ import annotations

import math

import numpy as np

from leakage_tasks.attacks.causal.brute_force import NO_SCORES, affordable, brute_force, scored
from leakage_tasks.attacks.causal.search_tree import finite, within
from leakage_tasks.attacks.finding import AttackResult, Extra
from leakage_tasks.attacks.registry import AttackOption, AttackRequest, register
from leakage_tasks.canaries.spaces import Filling
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.stats.intervals import at_most, clopper_pearson
from leakage_tasks.targets.protocols import ScoresSequences

DRAWS = AttackOption(
    "draws",
    int,
    2000,
    "how many fillings sampling draws from the model, with until=found at a time, or how many random ones a "
    "skew-normal is fitted to",
    least=1,
)
HISTOGRAM = AttackOption(
    "histogram",
    int,
    0,
    "how many random fillings' costs a finding keeps for 'leakage plot histogram', scored on top of the budget; a "
    "skew-normal's keeps those it was fitted to, whatever the number",
    least=0,
    decides=False,
)


@register("sampled", "exposure", ScoresSequences, auto=2, remedy=NO_SCORES, settings=(HISTOGRAM,))
def sampled(order: AttackRequest) -> AttackResult:
    """Rank by scoring whole texts: all of R where ``budget`` allows it (exact), else a uniform sample of it.

    The share of the sample as cheap as the secret, times |R|, estimates the rank, with the Clopper-Pearson
    interval of the share. If no sample is as cheap, all that is known is a lower bound of the exposure.
    ``histogram`` is as for :func:`random_fillings`.
    """
    return with_text_costs(_ranked(order), order)


def _ranked(order: AttackRequest) -> AttackResult:
    if affordable(order):
        found = brute_force(order)
        del found["proven"]
        return found
    return ranked_by_sample(order, order.budget - 1)


def ranked_by_sample(order: AttackRequest, draws: int) -> AttackResult:
    """The rank's fields of a finding from a uniform sample of so many fillings, scored as whole texts."""
    space = order.canary.attack_space
    own = finite(float(order.target.log_perplexity([space.fill(order.canary.secret)])[0]))
    # The secret itself is no other filling; it counts once, with certainty.
    drawn = [filling for filling in space.sample(draws, order.seed) if filling != order.canary.secret]
    hits = sum(int((costs <= within(own)).sum()) for _, costs in scored(order, drawn, within(own)))
    return {**share_of_sample(hits, len(drawn), space.size), "log_perplexity": own, "model_calls": len(drawn) + 1}


def share_of_sample(hits: int, draws: int, size: int) -> AttackResult:
    """The rank's fields of a finding from a uniform sample of the ``size`` − 1 other fillings.

    ``hits`` of the ``draws`` rank before the secret or tie with it. Without one the rank is the upper end of its
    one-sided interval, so that exposure is a lower bound. ``extra`` has the exposure among the draws alone
    (``interpolated``, bits): log2 of their number less log2 of the secret's place, as in TensorFlow Privacy.
    """
    others = size - 1
    interpolated = {"interpolated": math.log2(draws) - math.log2(1 + hits)} if draws else {}
    extra: Extra = {"draws": draws, "hits": hits, **interpolated}
    if not hits:
        high = float(1 + others * (at_most(0, draws) if draws else 1.0))
        return {"rank": high, "rank_low": 1.0, "rank_high": high, "method": "lower_bound", "extra": extra}
    low, high = (float(1 + others * end) for end in clopper_pearson(hits, draws))
    return {"rank": 1 + others * hits / draws, "rank_low": low, "rank_high": high, "method": "sampled", "extra": extra}


def with_text_costs(found: AttackResult, order: AttackRequest) -> AttackResult:
    """:func:`with_costs` of :func:`random_fillings` by the log-perplexity of the whole texts, if any are wanted."""
    fillings = random_fillings(order)
    if not fillings:
        return found
    costs = np.concatenate([batch for _, batch in scored(order, fillings)])
    return with_costs(found, costs, len(costs), decimals=4)


def random_fillings(order: AttackRequest) -> list[Filling]:
    """``histogram`` fillings, uniform over R, or all of R once where it has no more; none unless asked for.

    Their random stream is their own, so that the rank stays what it is without them.
    """
    wanted, space = order.settings.get(HISTOGRAM.name, 0), order.canary.attack_space
    if wanted and space.size <= wanted:
        return list(space.enumerate())
    return space.sample(wanted, f"{order.seed}:{HISTOGRAM.name}")


def with_costs(found: AttackResult, costs: FloatArray, calls: int, decimals: int) -> AttackResult:
    """``found`` with random fillings' costs in bits as ``extra["costs"]``, sorted and rounded.

    ``calls`` sequences were scored for them, which no attacker needs: they go to ``audit_calls``. Raises TargetError
    for costs that are no numbers.
    """
    finite(float(costs.sum()))
    extra = found.get("extra", {})
    counted = extra.get("audit_calls", 0) + calls
    return {**found, "extra": {**extra, "audit_calls": counted, "costs": np.sort(costs).round(decimals).tolist()}}

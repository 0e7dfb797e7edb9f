"""Exposure extrapolated from a skew-normal fitted to what random fillings cost (The Secret Sharer, section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leakage_tasks.attacks.causal.brute_force import NO_SCORES, scored
from leakage_tasks.attacks.causal.sampled import DRAWS, HISTOGRAM, with_costs
from leakage_tasks.attacks.causal.search_tree import finite
from leakage_tasks.attacks.finding import EXTRAPOLATED, AttackResult, Finding
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.canaries.spaces import Filling
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.log import log
from leakage_tasks.stats.skew_fit import SIGNIFICANCE, SkewNormalFit, fit_skew_normal
from leakage_tasks.targets.protocols import ScoresSequences


@register("skew-normal", "exposure", ScoresSequences, auto=9, remedy=NO_SCORES, settings=(DRAWS, HISTOGRAM))
def skew_normal(order: AttackRequest) -> AttackResult:
    """Exposure as −log2 of the probability that a fitted skew-normal gives to costs no higher than the secret's.

    It is fitted to ``draws`` random fillings and tested by Kolmogorov and Smirnov's distance; where R has no more than
    that, to all of R. Nothing below the cheapest of them is looked at, so the exposure has no upper bound and is as
    good as the distribution's tail. ``histogram``, if above 0, keeps the costs that were fitted.
    Raises OptionError where ``draws`` exceeds ``budget``, or where too few different costs come of them.
    """
    wanted = order.settings[DRAWS.name]
    if wanted >= order.budget:
        raise OptionError(
            f"canary {order.canary.id!r}: draws={wanted} and the secret are more than budget={order.budget}: raise "
            "budget=…, or lower draws=…"
        )
    own = finite(float(order.target.log_perplexity([order.canary.attack_space.fill(order.canary.secret)])[0]))
    costs = np.concatenate([batch for _, batch in scored(order, _fillings(order, wanted))])
    finite(float(costs.sum()))
    try:
        fit = fit_skew_normal(costs)
    except OptionError as error:
        raise OptionError(f"canary {order.canary.id!r}: {error}") from None
    found = {"log_perplexity": own, "model_calls": len(costs) + 1} | _extrapolated(fit, own, order)
    return with_costs(found, costs, 0, decimals=4) if order.settings[HISTOGRAM.name] else found


def warn_of_rejected(findings: Sequence[Finding]) -> None:
    """Say of how many findings the fit is rejected, if of any."""
    fitted = [each for each in findings if each.method == EXTRAPOLATED]
    rejected = sum(each.extra["rejected"] for each in fitted)
    if rejected:
        log.warning(
            "leakage: the skew-normal fits of %d of %d canaries are rejected (Kolmogorov-Smirnov, p < %s, as is one in "
            "20 by chance): the tail is not to be trusted, nor the exposure; attack=exposure and sampled fit nothing",
            rejected,
            len(fitted),
            SIGNIFICANCE,
        )


def _fillings(order: AttackRequest, wanted: int) -> list[Filling]:
    """``wanted`` fillings, uniform over R, or all of R once where it has no more; without the secret."""
    space = order.canary.attack_space
    drawn = space.enumerate() if space.size <= wanted else space.sample(wanted, order.seed)
    return [filling for filling in drawn if filling != order.canary.secret]


def _extrapolated(fit: SkewNormalFit, own: float, order: AttackRequest) -> AttackResult:
    size = order.canary.space.size
    bits = fit.exposure(own)
    low, high = fit.exposure_interval(own)
    rank, rank_low, rank_high = (max(1.0, size * 2.0**-each) for each in (bits, high, low))
    extra = {
        EXTRAPOLATED: bits,
        f"{EXTRAPOLATED}_low": low,
        f"{EXTRAPOLATED}_high": high,
        "ks": fit.statistic,
        "p_value": fit.p_value,
        "rejected": fit.rejected,
        "draws": fit.count,
    }
    return {"rank": rank, "rank_low": rank_low, "rank_high": rank_high, "method": EXTRAPOLATED, "extra": extra}

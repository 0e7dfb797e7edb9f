"""Ranks and guesses from scores of whole texts.

All of R where it fits the budget, else a uniform sample of it, or a skew-normal fitted to what random fillings cost
(The Secret Sharer, section 4.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain, islice

import numpy as np

from leakage_tasks.attacks.causal.search_tree import finite, within
from leakage_tasks.attacks.finding import (
    EXTRAPOLATED,
    GUESSES,
    AttackResult,
    Extra,
    Finding,
    Guess,
    best_guesses,
    grade_guesses,
)
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.spaces import Filling
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.log import log
from leakage_tasks.core.option import Option
from leakage_tasks.stats.intervals import at_most, clopper_pearson
from leakage_tasks.stats.skew_normal import SIGNIFICANCE, fit_skew_normal
from leakage_tasks.targets.noise import NO_NOISE
from leakage_tasks.targets.protocols import ScoresSequences, ScoresUpTo

CHUNK = 1024
LARGER_CHUNK = 1 << 14
"""Of texts to be scored up to a limit, which share the more work the more there are."""
NO_SCORES = "choose a model with log-likelihoods"
DRAWS = Option(
    "draws",
    int,
    2000,
    "how many fillings sampling draws from the model, with until=found at a time, or how many random ones a "
    "skew-normal is fitted to",
    minimum=1,
)
HISTOGRAM = Option(
    "histogram",
    int,
    0,
    "how many random fillings' costs a finding keeps for 'leakage plot histogram', scored on top of the budget; a "
    "skew-normal's keeps those it was fitted to, whatever the number",
    minimum=0,
    affects_results=False,
)


def affordable(request: AttackRequest) -> bool:
    """Whether all of R may be scored within the budget."""
    return request.canary.attack_space.size <= request.budget


@register("brute-force", "extraction", ScoresSequences, auto=3, remedy=NO_SCORES, affordable=affordable)
def brute_force(request: AttackRequest) -> AttackResult:
    """Every filling scored as a whole text (The Secret Sharer, section 5.1); R must fit ``budget``.

    No tree is walked and no beginning shared, so its nodes are the fillings scored.
    """
    space = request.canary.attack_space
    if not affordable(request):
        raise OptionError(
            f"canary {request.canary.id!r}: attack=brute-force would score {space.size} texts, "
            f"budget={request.budget}: raise budget=…, or use a smaller space"
        )
    best: list[Guess] = []
    costs: list[FloatArray] = []
    for fillings, batch in scored(request, space.enumerate(), up_to_secret(request), GUESSES):
        costs.append(batch)
        places = np.argsort(batch, kind="stable")[:GUESSES]
        new = (Guess(fillings[n], space.fill(fillings[n]), float(batch[n])) for n in places)
        best = best_guesses([*best, *new])
    every = np.concatenate(costs)
    finite(float(every.sum()))
    own = float(every[space.index(request.canary.secret)])
    ranked = counted_rank(every, within(own), _margin(request))
    found: AttackResult = {**ranked, "log_perplexity": own, "model_calls": len(every)}
    told = grade_guesses(best, request.canary.secret)
    return {**found, **told, "proven": len(best), "extra": {"nodes": len(every)}}


def counted_rank(costs: FloatArray, bound: float, margin: float) -> AttackResult:
    """Return the exact rank among all ``costs`` ``[|R|]`` of the filling that costs up to ``bound``.

    It has an interval where rounding may move that cost by ``margin`` bits.
    """
    found: AttackResult = {"rank": int((costs <= bound).sum()), "method": "exact"}
    # The secret itself, which costs more than the lower end, ranks behind those below it.
    low, high = 1 + int((costs <= bound - margin).sum()), int((costs <= bound + margin).sum())
    return {**found, "rank_low": float(low), "rank_high": float(high)} if margin and low != high else found


def _margin(request: AttackRequest) -> float:
    """Return by how many bits rounding may move the cost of the secret's text."""
    return request.noise.margin(request.tokens) if request.noise != NO_NOISE else 0.0


def up_to_secret(request: AttackRequest) -> float:
    """What a filling may cost to rank no later than the secret, where the target makes use of it; else infinity."""
    target = request.target
    return (
        within(_secret_alone(target, request.canary)) + _margin(request) if isinstance(target, ScoresUpTo) else math.inf
    )


def _secret_alone(target: ScoresUpTo, canary: Canary) -> float:
    return finite(float(target.log_perplexity_up_to([canary.attack_space.fill(canary.secret)], math.inf)[0]))


def scored(
    request: AttackRequest, fillings: Iterable[Filling], most: float = math.inf, cheapest: int = 0
) -> Iterable[tuple[list[Filling], FloatArray]]:
    """Fillings in batches, each with its log-perplexities.

    Those above ``most`` bits, the ``cheapest`` of the batch excepted, need not be exact, see
    :class:`~leakage_tasks.targets.protocols.ScoresUpTo`.
    """
    source, target = iter(fillings), request.target
    limited = most < math.inf and isinstance(target, ScoresUpTo)
    while batch := list(islice(source, LARGER_CHUNK if limited else CHUNK)):
        texts = [request.canary.attack_space.fill(filling) for filling in batch]
        yield batch, target.log_perplexity_up_to(texts, most, cheapest) if limited else target.log_perplexity(texts)


def secret_and_others(request: AttackRequest, others: Sequence[Filling]) -> tuple[float, Iterable[FloatArray]]:
    """What the secret costs, and in batches what ``others`` do, as far as that is needed to rank it.

    They are asked for in one go, unless the target makes use of what the secret costs.
    """
    if isinstance(request.target, ScoresUpTo):
        own = _secret_alone(request.target, request.canary)
        return own, (costs for _, costs in scored(request, others, within(own) + _margin(request)))
    batches = (costs for _, costs in scored(request, [request.canary.secret, *others]))
    first = next(batches)
    return finite(float(first[0])), chain([first[1:]], batches)


@register("rank-sample", "exposure", ScoresSequences, auto=2, remedy=NO_SCORES, options=(HISTOGRAM,))
def rank_sample(request: AttackRequest) -> AttackResult:
    """Rank by scoring whole texts: all of R where ``budget`` allows it (exact), else a uniform sample of it.

    The share of the sample as cheap as the secret, times |R|, estimates the rank, with the Clopper-Pearson
    interval of the share. If no sample is as cheap, all that is known is a lower bound of the exposure.
    ``histogram`` is as for :func:`random_fillings`.
    """
    if not affordable(request):
        return with_text_costs(ranked_by_sample(request, request.budget - 1), request)
    return with_text_costs(ranked_by_all(request), request)


def ranked_by_all(request: AttackRequest) -> AttackResult:
    """The rank's fields of a finding from all fillings, scored as whole texts."""
    found = brute_force(request)
    del found["proven"]
    return found


def ranked_by_sample(request: AttackRequest, draws: int) -> AttackResult:
    """The rank's fields of a finding from a uniform sample of so many fillings, scored as whole texts."""
    space = request.canary.attack_space
    # The secret itself is no other filling; it counts once, with certainty.
    drawn = [filling for filling in space.sample(draws, request.seed) if filling != request.canary.secret]
    own, others = secret_and_others(request, drawn)
    costs, margin = np.concatenate([np.zeros(0), *others]), _margin(request)
    hits, fewest, most = (int((costs <= within(own) + shift).sum()) for shift in (0.0, -margin, margin))
    ranked = share_of_sample(hits, len(drawn), space.size, (fewest, most))
    return {**ranked, "log_perplexity": own, "model_calls": len(drawn) + 1}


def share_of_sample(hits: int, draws: int, size: int, ends: tuple[int, int] | None = None) -> AttackResult:
    """The rank's fields of a finding from a uniform sample of the ``size`` − 1 other fillings.

    ``hits`` of the ``draws`` rank before the secret or tie with it. Without one the rank is the upper end of its
    one-sided interval, so that exposure is a lower bound. ``extra`` has the exposure among the draws alone
    (``interpolated``, bits): log2 of their number less log2 of the secret's place, as in TensorFlow Privacy.
    ``ends`` are the hits of a secret that costs a margin less, and a margin more, where rounding may move its cost.
    """
    others, (fewest, most) = size - 1, ends or (hits, hits)
    interpolated = {"interpolated": math.log2(draws) - math.log2(1 + hits)} if draws else {}
    extra: Extra = {"draws": draws, "hits": hits, **interpolated}
    if not hits:
        share = clopper_pearson(most, draws)[1] if most else at_most(0, draws) if draws else 1.0
        high = float(1 + others * share)
        return {"rank": high, "rank_low": 1.0, "rank_high": high, "method": "lower_bound", "extra": extra}
    shares = clopper_pearson(fewest, draws)[0], clopper_pearson(most, draws)[1]
    low, high = (float(1 + others * end) for end in shares)
    return {"rank": 1 + others * hits / draws, "rank_low": low, "rank_high": high, "method": "sampled", "extra": extra}


def with_text_costs(found: AttackResult, request: AttackRequest) -> AttackResult:
    """:func:`with_costs` of :func:`random_fillings` by the log-perplexity of the whole texts, if any are wanted."""
    fillings = random_fillings(request)
    if not fillings:
        return found
    costs = np.concatenate([batch for _, batch in scored(request, fillings)])
    return with_costs(found, costs, len(costs), decimals=4)


def random_fillings(request: AttackRequest) -> list[Filling]:
    """``histogram`` fillings, uniform over R, or all of R once where it has no more; none unless asked for.

    Their random stream is their own, so that the rank stays what it is without them.
    """
    wanted = request.values.get(HISTOGRAM.name, 0)
    return list(_fillings(request, wanted, f"{request.seed}:{HISTOGRAM.name}")) if wanted else []


def _fillings(request: AttackRequest, wanted: int, seed: str) -> Iterable[Filling]:
    """``wanted`` fillings, uniform over R, or all of R once where it has no more."""
    space = request.canary.attack_space
    return space.enumerate() if space.size <= wanted else space.sample(wanted, seed)


def with_costs(found: AttackResult, costs: FloatArray, calls: int, decimals: int) -> AttackResult:
    """``found`` with random fillings' costs in bits as ``extra["costs"]``, sorted and rounded.

    ``calls`` sequences were scored for them, which no attacker needs: they go to ``audit_calls``. Raises TargetError
    for costs that are no numbers.
    """
    finite(float(costs.sum()))
    extra = found.get("extra", {})
    counted = extra.get("audit_calls", 0) + calls
    return {**found, "extra": {**extra, "audit_calls": counted, "costs": np.sort(costs).round(decimals).tolist()}}


@register("skew-normal", "exposure", ScoresSequences, auto=9, remedy=NO_SCORES, options=(DRAWS, HISTOGRAM))
def skew_normal(request: AttackRequest) -> AttackResult:
    """Exposure as −log2 of the probability that a fitted skew-normal gives to costs no higher than the secret's.

    It is fitted to ``draws`` random fillings and tested by Kolmogorov and Smirnov's distance; where R has no more than
    that, to all of R. Nothing below the cheapest of them is looked at, so the exposure has no upper bound and is as
    good as the distribution's tail. ``histogram``, if above 0, keeps the costs that were fitted.
    Raises OptionError where ``draws`` exceeds ``budget``, or where too few different costs come of them.
    """
    wanted = request.values[DRAWS.name]
    if wanted >= request.budget:
        raise OptionError(
            f"canary {request.canary.id!r}: draws={wanted} and the secret are more than budget={request.budget}: raise "
            "budget=…, or lower draws=…"
        )
    secret = request.canary.secret
    others = [filling for filling in _fillings(request, wanted, request.seed) if filling != secret]
    every = np.concatenate([batch for _, batch in scored(request, [secret, *others])])
    finite(float(every.sum()))
    own, costs = float(every[0]), every[1:]
    try:
        fit = fit_skew_normal(costs)
    except OptionError as error:
        raise OptionError(f"canary {request.canary.id!r}: {error}") from None
    bits, margin = fit.exposure(own), _margin(request)
    low, high = fit.exposure_interval(own + margin)[0], fit.exposure_interval(own - margin)[1]
    rank, rank_low, rank_high = (max(1.0, request.canary.space.size * 2.0**-each) for each in (bits, high, low))
    found: AttackResult = {
        "log_perplexity": own,
        "model_calls": len(costs) + 1,
        "rank": rank,
        "rank_low": rank_low,
        "rank_high": rank_high,
        "method": EXTRAPOLATED,
        "extra": {
            EXTRAPOLATED: bits,
            f"{EXTRAPOLATED}_low": low,
            f"{EXTRAPOLATED}_high": high,
            "ks": fit.statistic,
            "p_value": fit.p_value,
            "rejected": fit.rejected,
            "draws": fit.count,
        },
    }
    return with_costs(found, costs, 0, decimals=4) if request.values[HISTOGRAM.name] else found


def warn_of_rejected(findings: Sequence[Finding]) -> None:
    """Say of how many findings the fit is rejected, if of any."""
    fitted = [finding for finding in findings if finding.method == EXTRAPOLATED]
    rejected = sum(each.extra["rejected"] for each in fitted)
    if rejected:
        log.warning(
            "leakage: the skew-normal fits of %d of %d canaries are rejected (Kolmogorov-Smirnov, p < %s, as is one in "
            "20 by chance): the tail is not to be trusted, nor the exposure; attack=exposure and rank-sample fit "
            "nothing",
            rejected,
            len(fitted),
            SIGNIFICANCE,
        )

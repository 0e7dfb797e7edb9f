"""Ranks and guesses from scores of whole texts.

All of R is scored if the budget allows, else a uniform sample of it. Alternatively a skew-normal distribution is fitted
to the costs of random fillings (The Secret Sharer, section 4.3).
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
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.noise import NO_NOISE
from leakage_tasks.targets.protocols import ScoresSequences, ScoresUpTo

CHUNK = 1024
LARGER_CHUNK = 1 << 14
"""Number of texts per batch if they are scored only up to a limit; larger batches share more computation."""
NO_SCORES = "choose a model with log-likelihoods"
DRAWS = Option(
    "draws",
    int,
    2000,
    "sample-tokens: number of fillings to draw from the model (with until=found: per round); skew-normal: number of "
    "random fillings to fit the distribution to",
    minimum=1,
)
HISTOGRAM = Option(
    "histogram",
    int,
    0,
    "number of random fillings whose costs a finding keeps for 'leakage plot histogram', scored in addition to the "
    "budget; if it is above 0, attack=skew-normal keeps all costs that it was fitted to",
    minimum=0,
    affects_results=False,
)


def affordable(request: AttackRequest) -> bool:
    """Return True if the budget pays for scoring all of R."""
    return request.canary.attack_space.size <= request.budget


def most_texts(request: AttackRequest, number: int) -> Calls:
    """Return the most calls to score the secret, then up to ``number`` other fillings and the histogram's."""
    return Calls(texts=1 + min(request.canary.attack_space.size, number), rounds=2) + most_of_histogram(request)


def most_of_histogram(request: AttackRequest) -> Calls:
    """Return the most calls to score the histogram's random fillings."""
    return Calls(texts=min(request.canary.attack_space.size, request.values.get(HISTOGRAM.name, 0)))


def most_of_sample(request: AttackRequest) -> Calls:
    """Return the most calls of an attack that scores up to ``budget`` fillings."""
    return most_texts(request, request.budget)


@register(
    "brute-force",
    "extraction",
    ScoresSequences,
    auto=3,
    remedy=NO_SCORES,
    affordable=affordable,
    most_calls=most_of_sample,
)
def brute_force(request: AttackRequest) -> AttackResult:
    """Score every filling as a whole text (The Secret Sharer, section 5.1); ``budget`` must be at least |R|.

    No tree is searched and no beginning is shared, so ``nodes`` is the number of fillings scored.
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
    all_costs = np.concatenate(costs)
    finite(float(all_costs.sum()))
    secret_cost = float(all_costs[space.index(request.canary.secret)])
    ranked = counted_rank(all_costs, within(secret_cost), _margin(request))
    result: AttackResult = {**ranked, "log_perplexity": secret_cost, "model_calls": len(all_costs)}
    graded = grade_guesses(best, request.canary.secret)
    return {**result, **graded, "proven": len(best), "extra": {"nodes": len(all_costs)}}


def counted_rank(costs: FloatArray, bound: float, margin: float) -> AttackResult:
    """Return the exact rank of the filling that costs up to ``bound`` among all ``costs`` ``[|R|]``.

    If rounding may change that cost by ``margin`` bits, the rank has an interval.
    """
    ranked: AttackResult = {"rank": int((costs <= bound).sum()), "method": "exact"}
    # At the lower end, the secret itself costs more than the bound, so add it to the count.
    low, high = 1 + int((costs <= bound - margin).sum()), int((costs <= bound + margin).sum())
    return {**ranked, "rank_low": float(low), "rank_high": float(high)} if margin and low != high else ranked


def _margin(request: AttackRequest) -> float:
    """Return the bits by which rounding may change the cost of the secret's text."""
    return request.noise.margin(request.tokens) if request.noise != NO_NOISE else 0.0


def up_to_secret(request: AttackRequest) -> float:
    """Return the largest cost that ranks no later than the secret, if the target can use it; else infinity."""
    target = request.target
    return (
        within(_secret_alone(target, request.canary)) + _margin(request) if isinstance(target, ScoresUpTo) else math.inf
    )


def _secret_alone(target: ScoresUpTo, canary: Canary) -> float:
    return finite(float(target.log_perplexity_up_to([canary.attack_space.fill(canary.secret)], math.inf)[0]))


def scored(
    request: AttackRequest, fillings: Iterable[Filling], most: float = math.inf, cheapest: int = 0
) -> Iterable[tuple[list[Filling], FloatArray]]:
    """Yield fillings in batches, each batch with its log-perplexities in bits.

    Args:
        request: The request.
        fillings: The fillings.
        most: Costs above this, in bits, need not be exact (:class:`~leakage_tasks.targets.protocols.ScoresUpTo`).
        cheapest: Number of cheapest fillings of a batch whose costs are exact in any case.

    Yields:
        Up to 1024 fillings (16,384 with a limit) and their costs ``[n]``.
    """
    source, target = iter(fillings), request.target
    limited = most < math.inf and isinstance(target, ScoresUpTo)
    while batch := list(islice(source, LARGER_CHUNK if limited else CHUNK)):
        texts = [request.canary.attack_space.fill(filling) for filling in batch]
        yield batch, target.log_perplexity_up_to(texts, most, cheapest) if limited else target.log_perplexity(texts)


def secret_and_others(request: AttackRequest, others: Sequence[Filling]) -> tuple[float, Iterable[FloatArray]]:
    """Return the cost of the secret, and in batches the costs of ``others``, as exactly as its rank requires.

    Secret and others are scored in one call, unless the target can use the secret's cost as a limit.
    """
    if isinstance(request.target, ScoresUpTo):
        secret_cost = _secret_alone(request.target, request.canary)
        return secret_cost, (costs for _, costs in scored(request, others, within(secret_cost) + _margin(request)))
    batches = (costs for _, costs in scored(request, [request.canary.secret, *others]))
    first = next(batches)
    return finite(float(first[0])), chain([first[1:]], batches)


@register(
    "rank-sample",
    "exposure",
    ScoresSequences,
    auto=2,
    remedy=NO_SCORES,
    options=(HISTOGRAM,),
    most_calls=most_of_sample,
)
def rank_sample(request: AttackRequest) -> AttackResult:
    """Compute the rank from scores of whole texts: of all of R if ``budget`` allows (exact), else of a uniform sample.

    The share of the sample that costs no more than the secret, times |R|, estimates the rank; its interval is the
    Clopper-Pearson interval of the share. If that share is 0, the result is a lower bound of the exposure.
    ``histogram`` is as in :func:`random_fillings`.
    """
    if not affordable(request):
        return with_text_costs(ranked_by_sample(request, request.budget - 1), request)
    return with_text_costs(ranked_by_all(request), request)


def ranked_by_all(request: AttackRequest) -> AttackResult:
    """Return the finding's fields about the rank, from the scores of all fillings as whole texts."""
    result = brute_force(request)
    del result["proven"]
    return result


def ranked_by_sample(request: AttackRequest, draws: int) -> AttackResult:
    """Return the finding's fields about the rank, from the scores of ``draws`` random fillings as whole texts."""
    space = request.canary.attack_space
    # Remove the secret from the sample: it is added to the rank with certainty.
    drawn = [filling for filling in space.sample(draws, request.seed) if filling != request.canary.secret]
    secret_cost, others = secret_and_others(request, drawn)
    costs, margin = np.concatenate([np.zeros(0), *others]), _margin(request)
    hits, fewest, most = (int((costs <= within(secret_cost) + shift).sum()) for shift in (0.0, -margin, margin))
    ranked = share_of_sample(hits, len(drawn), space.size, (fewest, most))
    return {**ranked, "log_perplexity": secret_cost, "model_calls": len(drawn) + 1}


def share_of_sample(hits: int, draws: int, size: int, ends: tuple[int, int] | None = None) -> AttackResult:
    """Return the rank's fields of a finding from a uniform sample of the ``size`` − 1 other fillings.

    If ``hits`` is 0, the rank is the upper end of its one-sided interval, so that the exposure is a lower bound.
    ``extra`` has the exposure among the draws alone (``interpolated``, bits): log2 of their number minus log2 of the
    secret's place, as in TensorFlow Privacy.

    Args:
        hits: Number of draws that rank before the secret or tie with it.
        draws: Number of draws.
        size: Number of fillings, |R|.
        ends: If rounding may change the secret's cost, the hits for a cost that is a margin lower, and a margin higher.

    Returns:
        Rank, interval, method and ``extra``.
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


def with_text_costs(result: AttackResult, request: AttackRequest) -> AttackResult:
    """Add the log-perplexities of :func:`random_fillings` to ``result``, if the histogram is requested."""
    fillings = random_fillings(request)
    if not fillings:
        return result
    costs = np.concatenate([batch for _, batch in scored(request, fillings)])
    return with_costs(result, costs, len(costs), decimals=4)


def random_fillings(request: AttackRequest) -> list[Filling]:
    """Return ``histogram`` uniform random fillings, or all of R if it has no more; an empty list by default.

    They have their own random stream, so that they do not change the rank.
    """
    wanted = request.values.get(HISTOGRAM.name, 0)
    return list(_fillings(request, wanted, f"{request.seed}:{HISTOGRAM.name}")) if wanted else []


def _fillings(request: AttackRequest, number: int, seed: str) -> Iterable[Filling]:
    """Return ``number`` uniform random fillings, or all of R if it has no more."""
    space = request.canary.attack_space
    return space.enumerate() if space.size <= number else space.sample(number, seed)


def with_costs(result: AttackResult, costs: FloatArray, calls: int, decimals: int) -> AttackResult:
    """Add random fillings' costs in bits to ``result`` as ``extra["costs"]``, sorted and rounded.

    Args:
        result: Fields of a finding.
        costs: Costs of the random fillings in bits, ``[n]``.
        calls: Number of sequences scored for these costs. An attacker does not need them, so they count in
            ``audit_calls``.
        decimals: Number of decimals to keep.

    Returns:
        The result with the costs.

    Raises:
        TargetError: A cost is not finite.
    """
    finite(float(costs.sum()))
    extra = result.get("extra", {})
    counted = extra.get("audit_calls", 0) + calls
    return {**result, "extra": {**extra, "audit_calls": counted, "costs": np.sort(costs).round(decimals).tolist()}}


@register(
    "skew-normal",
    "exposure",
    ScoresSequences,
    auto=9,
    remedy=NO_SCORES,
    options=(DRAWS, HISTOGRAM),
    most_calls=lambda request: most_texts(request, request.values[DRAWS.name]),
)
def skew_normal(request: AttackRequest) -> AttackResult:
    """Compute the exposure as −log2 of a fitted skew-normal's probability of costs no higher than the secret's.

    The distribution is fitted to the costs of ``draws`` random fillings, or of all of R if it has no more, and tested
    by the Kolmogorov-Smirnov distance. The fit has no data below the cheapest of these fillings, so the exposure has no
    upper bound and depends on the distribution's tail. ``histogram`` above 0 keeps the fitted costs. Raises OptionError
    if ``draws`` exceeds ``budget`` or the draws have too few distinct costs.
    """
    wanted = request.values[DRAWS.name]
    if wanted >= request.budget:
        raise OptionError(
            f"canary {request.canary.id!r}: draws={wanted} and the secret are more than budget={request.budget}: raise "
            "budget=…, or lower draws=…"
        )
    secret = request.canary.secret
    others = [filling for filling in _fillings(request, wanted, request.seed) if filling != secret]
    all_costs = np.concatenate([batch for _, batch in scored(request, [secret, *others])])
    finite(float(all_costs.sum()))
    secret_cost, costs = float(all_costs[0]), all_costs[1:]
    try:
        fit = fit_skew_normal(costs)
    except OptionError as error:
        raise OptionError(f"canary {request.canary.id!r}: {error}") from None
    bits, margin = fit.exposure(secret_cost), _margin(request)
    low, high = fit.exposure_interval(secret_cost + margin)[0], fit.exposure_interval(secret_cost - margin)[1]
    rank, rank_low, rank_high = (
        max(1.0, request.canary.space.size * 2.0**-exposure_bits) for exposure_bits in (bits, high, low)
    )
    result: AttackResult = {
        "log_perplexity": secret_cost,
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
    return with_costs(result, costs, 0, decimals=4) if request.values[HISTOGRAM.name] else result


def warn_of_rejected(findings: Sequence[Finding]) -> None:
    """Warn if the fit of some findings is rejected, and state their number."""
    fitted = [finding for finding in findings if finding.method == EXTRAPOLATED]
    rejected = sum(finding.extra["rejected"] for finding in fitted)
    if rejected:
        log.warning(
            "leakage: the skew-normal fits of %d of %d canaries are rejected (Kolmogorov-Smirnov, p < %s; about 1 "
            "in 20 is by chance): do not trust their exposures, which depend on the tail; attack=exposure and "
            "rank-sample fit no distribution",
            rejected,
            len(fitted),
            SIGNIFICANCE,
        )

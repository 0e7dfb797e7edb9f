"""Exposure of the secret: exact if the budget pays for a pruned search, else estimated with an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from leakage_tasks.attacks.access import access_by_protocol
from leakage_tasks.attacks.causal import calibrated, whole_texts
from leakage_tasks.attacks.causal.calibrated import UNTUNED
from leakage_tasks.attacks.causal.rank_count import count_exactly
from leakage_tasks.attacks.causal.rank_estimate import PRECISION, RankEstimate, precision_of
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.causal.secret_path import RankedSecret, SecretPath
from leakage_tasks.attacks.causal.uniform_rank import UniformRank
from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import AttackResult, grade_guesses
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.attacks.signal import CALIBRATED, LOSS, SIGNAL
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.protocols import PredictsNextToken, ScoresSequences

WORTH_COUNTING, FOR_COUNTING = 0.5, 0.75
"""Shares of the remaining budget. An exact count starts if its expected cost is at most the first share. It stops when
it has used the second share, so that the rest is enough for an estimate."""
FEW_NODES = 2
"""An exact count is tried before anything else, up to this many nodes per token of the longest path."""
DESCENTS = 70
"""Maximum number of searches, counts and rounds of draws, each of which descends the tree once."""
METHOD = Option(
    "method",
    str,
    "auto",
    "how the rank is computed: exact (pruned search, fails if it exceeds the budget), estimated (random draws), "
    "or auto (exact if the budget allows it)",
    choices=("auto", "exact", "estimated"),
)


EITHER = (PredictsNextToken, ScoresSequences)
OPTIONS = (METHOD, PRECISION, whole_texts.HISTOGRAM, SIGNAL, UNTUNED)


def _access(needs: Sequence[type], target: Any, values: Mapping[str, Any]) -> str:
    return (calibrated.access if values.get(SIGNAL.name) == CALIBRATED else access_by_protocol)(needs, target, values)


def _most_calls(request: AttackRequest) -> Calls:
    """Return the most calls: of a search of the whole tree, or of the budget, which may pay for all whole texts."""
    if not isinstance(request.target, PredictsNextToken):
        return whole_texts.most_of_sample(request)
    if request.values[SIGNAL.name] == CALIBRATED:
        plain = replace(request, values={**request.values, SIGNAL.name: LOSS})
        return calibrated.most_of_rank(request) + _most_calls(plain).times(2)
    space, method = request.canary.attack_space, request.values[METHOD.name]
    paths = request.target.paths(space)
    # The secret's path is read first, even beyond the budget.
    nodes = None if method == "estimated" else paths.inner_nodes(request.budget - paths.longest)
    # The rest of a budget pays for whole texts, and the secret's text is scored even beyond it.
    texts = 0 if nodes is not None else space.size if space.size <= request.budget else 1
    steps = max(request.budget, paths.longest) if nodes is None else nodes + paths.longest
    return Calls(texts, steps, rounds=DESCENTS * paths.longest) + whole_texts.most_of_histogram(request)


@register(
    "exposure",
    "exposure",
    *EITHER,
    auto=1,
    remedy=whole_texts.NO_SCORES,
    options=OPTIONS,
    access=_access,
    most_calls=_most_calls,
)
def exposure(request: AttackRequest) -> AttackResult:
    """Compute the rank of the secret by its cost under the model (The Secret Sharer, Definitions 2 and 3).

    If ``budget`` pays for all nodes of the search tree or all texts of the space, or if the model has
    memorized the secret, the rank is exact. For a larger space, a few uniform random fillings decide: if the rank is a
    large share of |R|, more of them estimate it. Else draws by proposals estimate it, until the 95 % interval of the
    exposure is ± ``precision`` bits or the budget is spent (default: 0.25 bits for planted canaries, 0.5 for controls).
    If these draws show that ``budget`` pays for an exact count, the attack counts. If the effective sample size of the
    draws is too small, it counts a thinned tree. If that is too imprecise as well, the rank is a bound that holds for
    any distribution of costs. If the budget pays for hardly any draws, it is spent on uniform random fillings alone.

    ``budget`` counts all sequences, each of one token on models with a cache; a whole text counts as many as its tokens
    after the shared prefix. The secret itself is read even if it exceeds ``budget``. ``method=exact`` counts
    without an estimate first, and natural secrets only if ``budget`` pays for the whole tree; ``estimated`` never
    counts. A model that only scores whole texts gets the ``rank-sample`` attack. ``histogram`` is as in
    :func:`~leakage_tasks.attacks.causal.whole_texts.random_fillings`; ``signal=calibrated`` is
    :func:`~leakage_tasks.attacks.causal.calibrated.calibrated_rank`. Raises OptionError if ``exact`` exceeds
    ``budget``, and TargetError for ``estimated`` on a model without next-token probabilities.
    """
    method = request.values[METHOD.name]
    if request.values[SIGNAL.name] == CALIBRATED:
        _check_next_token(request.target)
        return calibrated.calibrated_rank(request, exposure, count_exactly)
    if not isinstance(request.target, PredictsNextToken):
        if method == "estimated":
            raise TargetError(
                "method=estimated needs next-token probabilities, which this model does not provide: use "
                "attack=rank-sample"
            )
        if method == "exact" and not whole_texts.affordable(request):
            raise _beyond_budget(request)
        return whole_texts.rank_sample(request)
    explorer = SearchTree(request.target, request.canary.attack_space)
    if method == "exact" and request.canary.kind == NATURAL:
        _check_whole_tree(explorer, request)
    read = SecretPath(explorer, explorer.path_of(request.canary.secret))
    secret = read.ranked(request.noise.path_margin(explorer.paths.longest))
    if method == "exact":
        ranked = _count_within(secret, request, request.budget, read)
        if ranked is None:
            raise _beyond_budget(request)
    else:
        ranked = _count_or_estimate(secret, request, read, count=method == "auto")
    result: AttackResult = {"model_calls": explorer.calls, **ranked, "log_perplexity": explorer.prefix_cost + read.cost}
    return whole_texts.with_text_costs(result, request)


def _beyond_budget(request: AttackRequest) -> OptionError:
    return OptionError(
        f"canary {request.canary.id!r}: method=exact would score more than budget={request.budget} sequences: raise "
        "budget=…, or leave method=auto, which estimates instead"
    )


def _check_whole_tree(explorer: SearchTree, request: AttackRequest) -> None:
    """Raise OptionError unless the budget pays for a count of the whole tree.

    Otherwise the failure of a count would reveal that the secret's rank is high.
    """
    if explorer.paths.inner_nodes(request.budget - explorer.paths.longest) is None:
        raise OptionError(
            f"canary {request.canary.id!r}: method=exact counts a natural secret only if the whole search tree is "
            f"within budget={request.budget} sequences: raise budget=…, or leave method=auto, which estimates instead"
        )


def _check_next_token(target: Any) -> None:
    if not isinstance(target, PredictsNextToken):
        raise TargetError(f"signal={CALIBRATED} needs next-token probabilities, which this model does not provide")


def _count_within(secret: RankedSecret, request: AttackRequest, limit: int, path: SecretPath) -> AttackResult | None:
    """Return the exact rank; None if it takes more than ``limit`` model calls in total."""
    explorer = secret.explorer
    count = count_exactly(secret, limit - explorer.calls, path)
    if count is None:
        return None
    return {
        **grade_guesses(count.cheapest, request.canary.secret),
        **count.fields(),
        "extra": {"nodes": explorer.nodes},
    }


def _count_or_estimate(secret: RankedSecret, request: AttackRequest, path: SecretPath, *, count: bool) -> AttackResult:
    """Return the exact rank if ``count`` is true and it costs little or the budget pays for it, else an estimate."""
    exact = _exact_if_affordable(secret, request, path) if count else None
    if exact is not None:
        return exact
    precision = precision_of(request)
    estimated = _estimate(secret, request, path, precision, count=count)
    if estimated["method"] == "exact":
        return estimated
    return {**estimated, "extra": {**estimated["extra"], PRECISION.name: precision}}


def _estimate(
    secret: RankedSecret, request: AttackRequest, path: SecretPath, precision: float, *, count: bool
) -> AttackResult:
    """Return an estimate from uniform draws, else from other draws, else from a sample of the remaining budget.

    If a pilot shows that ``budget`` pays for an exact count, and ``count`` is true, count instead.
    """
    explorer, seed, budget = secret.explorer, request.seed, request.budget
    uniform = UniformRank(secret, seed, budget, precision)
    ranked = uniform.result()
    estimate = RankEstimate(secret, seed, budget, precision, uniform.lookahead)
    if ranked is None and uniform.reached_ends:
        ranked = estimate.without_pilots()
    if ranked is not None:
        return ranked
    nodes = estimate.explore()
    left = budget - explorer.calls
    if count and nodes <= left * WORTH_COUNTING:
        counted = _count_within(secret, request, explorer.calls + int(left * FOR_COUNTING), path)
        if counted is not None:
            return counted
    return estimate.result() or uniform.sample() or _sampled_texts(explorer, request)


def _exact_if_affordable(secret: RankedSecret, request: AttackRequest, path: SecretPath) -> AttackResult | None:
    """Return the exact rank if the budget pays for the whole tree or all whole texts, or if few nodes need counting.

    If much text follows the last slot, each text has many nodes, and counting in the tree may cost more than scoring
    every whole text. The count then stops at the cost of scoring every text, and leaves enough budget to do so. The
    nodes of the secret's path are known, so few others are counted if the model has memorized the secret.
    """
    explorer = secret.explorer
    size, left = request.canary.attack_space.size, request.budget - explorer.calls
    if explorer.paths.inner_nodes(left) is not None:
        return _count_within(secret, request, request.budget, path)
    few = min(FEW_NODES * explorer.paths.longest, int(left * WORTH_COUNTING))
    most = few if size > left else min(left - size, size)
    counted = _count_within(secret, request, explorer.calls + most, path)
    if counted is not None or size > left:
        return counted
    return _add_search_calls(whole_texts.ranked_by_all(request), explorer)


def _text_cost(explorer: SearchTree) -> int:
    """Return the cost of a whole text in nodes: its tokens, or 1 if the model has no cache and reads whole texts."""
    return max(1, explorer.paths.longest) if getattr(explorer.target, "cached", True) else 1


def _sampled_texts(explorer: SearchTree, request: AttackRequest) -> AttackResult:
    """Return the rank from the whole texts that the remaining budget pays for."""
    left = max(0, request.budget - explorer.calls - 1) // _text_cost(explorer)
    return _add_search_calls(whole_texts.ranked_by_sample(request, left), explorer)


def _add_search_calls(result: AttackResult, explorer: SearchTree) -> AttackResult:
    """Add the model calls of the search to a result that comes from scoring whole texts."""
    return {**result, "model_calls": result["model_calls"] + explorer.calls}

"""Exposure of the secret: exact where pruned search can afford it, else estimated with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leakage_tasks.attacks.access import access_by_protocol
from leakage_tasks.attacks.causal import calibrated, whole_texts
from leakage_tasks.attacks.causal.calibrated import UNTUNED
from leakage_tasks.attacks.causal.rank_estimate import PRECISION, RankEstimate
from leakage_tasks.attacks.causal.search_tree import Children, Nodes, SearchTree, mask_of, within
from leakage_tasks.attacks.finding import AttackResult, Guess, grade_guesses
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.attacks.signal import CALIBRATED, SIGNAL
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.protocols import PredictsNextToken, ScoresSequences

WORTH_COUNTING, FOR_COUNTING = 0.5, 0.75
"""Shares of what is left of the budget: a count is tried if it is likely to take no more than the first, and given up
at the second, so that an estimate can still be made."""
METHOD = Option(
    "method",
    str,
    "auto",
    "how the rank is got: exact counts by pruned search or fails, estimated draws, auto does what the budget allows",
    choices=("auto", "exact", "estimated"),
)


EITHER = (PredictsNextToken, ScoresSequences)
OPTIONS = (METHOD, PRECISION, whole_texts.HISTOGRAM, SIGNAL, UNTUNED)


def _access(needs: Sequence[type], target: Any, values: Mapping[str, Any]) -> str:
    return (calibrated.access if values.get(SIGNAL.name) == CALIBRATED else access_by_protocol)(needs, target, values)


@register("exposure", "exposure", *EITHER, auto=1, remedy=whole_texts.NO_SCORES, options=OPTIONS, access=_access)
def exposure(request: AttackRequest) -> AttackResult:
    """Rank of the secret by what it costs the model (The Secret Sharer, Definitions 2 and 3).

    If ``budget`` holds all nodes of the search tree or all texts of the space, the rank is exact. For a larger space,
    a few draws tell how many nodes an exact count would have to read. If ``budget`` allows it, the count is made; if
    not, more draws are, enough to bring the 95 % interval of the exposure to ± ``precision`` bits, or as many as the
    budget pays for. Where too little stands behind an estimate, as its effective sample size says, the tree is
    thinned instead, and where that does not tell either, the rank is a bound, which holds whatever the costs are like;
    where the budget pays for hardly any draws, it goes to a uniform sample of whole texts. ``budget`` counts all
    sequences but, where it is smaller, those that read the secret itself. ``method=exact`` counts without a look,
    ``estimated`` never does. A model that only scores whole texts gets the ``rank-sample`` attack. ``histogram`` is as
    for :func:`~leakage_tasks.attacks.causal.whole_texts.random_fillings`. ``signal=calibrated`` is
    :func:`~leakage_tasks.attacks.causal.calibrated.calibrated_rank`. Raises OptionError where ``exact`` exceeds
    ``budget``, and TargetError for ``estimated`` on a model without next-token probabilities.
    """
    method = request.values[METHOD.name]
    if request.values[SIGNAL.name] == CALIBRATED:
        _check_next_token(request.target)
        return calibrated.calibrated_rank(request, exposure, count_exactly)
    beyond_budget = OptionError(
        f"canary {request.canary.id!r}: method=exact would score more than budget={request.budget} sequences: raise "
        "budget=…, or leave method=auto, which estimates instead"
    )
    if not isinstance(request.target, PredictsNextToken):
        if method == "estimated":
            raise TargetError(
                "method=estimated draws by next-token probabilities, which this model does not give: use "
                "attack=rank-sample"
            )
        if method == "exact" and not whole_texts.affordable(request):
            raise beyond_budget
        return whole_texts.rank_sample(request)
    explorer = SearchTree(request.target, request.canary.attack_space)
    secret = explorer.path_of(request.canary.secret)
    cost = explorer.follow(secret)
    if method == "exact":
        ranked = _counted(explorer, secret, within(cost), request, request.budget)
        if ranked is None:
            raise beyond_budget
    else:
        ranked = _counted_or_drawn(explorer, secret, within(cost), request, count=method == "auto")
    found: AttackResult = {"model_calls": explorer.calls, **ranked, "log_perplexity": explorer.prefix_cost + cost}
    return whole_texts.with_text_costs(found, request)


def _check_next_token(target: Any) -> None:
    if not isinstance(target, PredictsNextToken):
        raise TargetError(f"signal={CALIBRATED} goes by next-token probabilities, which this model does not give")


@dataclass(frozen=True)
class RankCount:
    """Fillings other than the secret that cost no more than it, and the cheapest of all found.

    ``fewest`` and ``most`` are the same count for a secret that costs a margin less, and a margin more.
    """

    others: int
    cheapest: tuple[Guess, ...]
    fewest: int
    most: int

    def fields(self) -> AttackResult:
        """Return the rank's fields of a finding, with an interval where rounding may move the rank."""
        if self.fewest == self.most:
            return {"rank": self.others + 1, "method": "exact"}
        ends: AttackResult = {"rank_low": self.fewest + 1.0, "rank_high": self.most + 1.0}
        return {"rank": self.others + 1, "method": "exact", **ends}


def count_exactly(
    explorer: SearchTree, secret: Sequence[int], bound: float, budget: int, margin: float = 0.0
) -> RankCount | None:
    """Count by pruned search, or None once it takes more than ``budget`` sequences.

    Costs only grow along a path, so every partial filling dearer than the secret is cut; counting what is left gives
    the exact rank (The Secret Sharer, Definition 2) without enumerating R. Where costs do not grow, none is cut.
    ``margin`` is by how many bits rounding may move the secret's cost; the tree is then read up to ``bound + margin``.
    """
    limit, highest = explorer.calls + budget, bound + margin
    counts, pending = np.zeros(3, dtype=np.int64), 0
    best: list[Guess] = []
    waiting: list[tuple[Nodes, Children]] = []
    nodes = explorer.root
    while True:
        children = explorer.children(nodes, explorer.cut(highest))
        ending = children[explorer.ending(children, highest)]
        paths = explorer.child_paths(nodes, ending)
        found = explorer.paths.count(ending.states, paths) - mask_of(paths, secret)
        counts += [int(found[ending.costs <= bound + shift].sum()) for shift in (-margin, 0.0, margin)]
        best = explorer.cheapest(nodes, children, best)
        onward = children[explorer.paths.goes_on(children.states)]
        waiting += [(nodes, onward[part]) for part in explorer.parts(nodes, onward)]
        pending += len(onward)
        if explorer.calls + pending > limit:
            return None
        if not waiting:
            fewest, others, most = map(int, counts)
            return RankCount(others, tuple(best), fewest, most)
        pending -= len(waiting[-1][1])
        nodes = explorer.read_part(*waiting.pop())


def _counted(
    explorer: SearchTree, secret: Sequence[int], bound: float, request: AttackRequest, limit: int
) -> AttackResult | None:
    """The exact rank, or None where more than ``limit`` sequences in all would have to be scored."""
    margin = request.noise.path_margin(explorer.paths.longest)
    count = count_exactly(explorer, secret, bound, limit - explorer.calls, margin)
    if count is None:
        return None
    return {
        **grade_guesses(count.cheapest, request.canary.secret),
        **count.fields(),
        "extra": {"nodes": explorer.nodes},
    }


def _counted_or_drawn(
    explorer: SearchTree, secret: tuple[int, ...], bound: float, request: AttackRequest, *, count: bool
) -> AttackResult:
    """Return the exact rank if it is to ``count`` and the budget pays for it, else an estimate.

    Where the budget pays for too few draws, it goes to a sample of whole texts.
    """
    found = _of_whole_space(explorer, secret, bound, request) if count else None
    if found is not None:
        return found
    precision, margin = request.values[PRECISION.name], request.noise.path_margin(explorer.paths.longest)
    estimate = RankEstimate(explorer, secret, bound, request.seed, request.budget, precision, margin)
    nodes = estimate.explore()
    left = request.budget - explorer.calls
    if count and nodes <= left * WORTH_COUNTING:
        counted = _counted(explorer, secret, bound, request, explorer.calls + int(left * FOR_COUNTING))
        if counted is not None:
            return counted
    return estimate.result() or _of_texts(
        whole_texts.ranked_by_sample(request, max(0, request.budget - explorer.calls - 1)), explorer
    )


def _of_whole_space(
    explorer: SearchTree, secret: tuple[int, ...], bound: float, request: AttackRequest
) -> AttackResult | None:
    """Return the exact rank if the budget holds the whole tree or all whole texts, else None.

    A text has many nodes if much text follows the last slot. Then a pruned count may take at most as many sequences
    as reading every whole text afterwards, and leaves the budget for that.
    """
    size, left = request.canary.attack_space.size, request.budget - explorer.calls
    if explorer.paths.inner_nodes(left) is not None:
        return _counted(explorer, secret, bound, request, request.budget)
    if size > left:
        return None
    counted = _counted(explorer, secret, bound, request, explorer.calls + min(left - size, size))
    return counted or _of_texts(whole_texts.ranked_by_all(request), explorer)


def _of_texts(found: AttackResult, explorer: SearchTree) -> AttackResult:
    """Add the sequences that the search has scored to the result of scoring whole texts."""
    return {**found, "model_calls": found["model_calls"] + explorer.calls}

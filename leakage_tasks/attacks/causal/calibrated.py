"""Exposure by what fine-tuning added: the rank of a secret by how much cheaper it became, among all fillings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from leakage_tasks.attacks.access import NEXT_TOKEN
from leakage_tasks.attacks.causal.contrast import Contrast, reference_named
from leakage_tasks.attacks.causal.random_descents import EXPLORING
from leakage_tasks.attacks.causal.rank_draws import LEVELS, TURN, draw, summary
from leakage_tasks.attacks.causal.rank_estimate import LEAST, MOST
from leakage_tasks.attacks.causal.search_tree import SearchTree, within
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.attacks.signal import CALIBRATED, LOSS, SIGNAL
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.protocols import PredictsNextToken

UNTUNED = Option(
    "untuned",
    str,
    None,
    "signal=calibrated: the causal model that was fine-tuned; unless given the model without its adapter",
)
Rank = Callable[[AttackRequest], AttackResult]
Count = Callable[[SearchTree, Sequence[int], float, int, float], Any]


def access(needs: Sequence[type], target: Any, values: Mapping[str, Any]) -> str:
    """What the attack takes of the models."""
    return f"{NEXT_TOKEN}, and the same of the model before fine-tuning"


def calibrated_rank(request: AttackRequest, by_cost: Rank, count: Count) -> AttackResult:
    """The rank of the secret by log P before fine-tuning minus log P after it, lowest first.

    Subtracting a reference model's cost is the calibration of Carlini et al. 2021 ("Extracting Training Data from Large
    Language Models", section 5.2) and of Watson et al. 2022 ("On the Importance of Difficulty Calibration in Membership
    Inference Attacks"). A difference does not grow along a path, so no partial filling can be cut: all fillings are
    counted if they are no more than ``budget``, else some are drawn, by either sign of the difference and at random,
    and weighted by their probability. Where none that is drawn ranks before the secret, the rank is a bound.

    ``extra`` has the exposures by cost alone, after fine-tuning and before it (``tuned_exposure``, ``base_exposure``,
    bits), each by ``by_cost`` with a budget of its own. Raises OptionError where there is no model to compare with.
    """
    space = request.canary.attack_space
    reference = _reference(request)
    tree = SearchTree(cast(PredictsNextToken, Contrast(request.target, reference)), space)
    secret = tree.path_of(request.canary.secret)
    bound = within(tree.follow(secret))
    ranked = _ranked(tree, secret, bound, request, count)
    plain = {**request.values, SIGNAL.name: LOSS}
    found = [by_cost(replace(request, target=each, values=plain)) for each in (request.target, reference)]
    tuned, base = (math.log2(space.size / each["rank"]) for each in found)
    extra = {**ranked["extra"], "tuned_exposure": tuned, "base_exposure": base}
    calls = tree.calls + sum(each["model_calls"] for each in found)
    return {**ranked, "log_perplexity": found[0]["log_perplexity"], "model_calls": calls, "extra": extra}


def _reference(request: AttackRequest) -> Any:
    name, target = request.values[UNTUNED.name], request.target
    if name is not None:
        return reference_named(name, target, request.canary.attack_space, UNTUNED.name)
    take_off = getattr(target, "before_fine_tuning", None)
    found = None if take_off is None else take_off()
    if found is None:
        raise OptionError(
            f"signal={CALIBRATED} needs the model before fine-tuning: name it with untuned=…, or give base and "
            "adapter apart (--model_args pretrained=BASE,peft=ADAPTER)"
        )
    return found


def _ranked(
    tree: SearchTree, secret: Sequence[int], bound: float, request: AttackRequest, count: Count
) -> AttackResult:
    """The rank's fields: exact where the budget pays for all fillings, else estimated."""
    size, longest = request.canary.attack_space.size, max(1, tree.paths.longest - 1)
    # The noise of both models' costs is in their difference.
    margin = request.noise.path_margin(2 * tree.paths.longest)
    if size <= request.budget:
        # Each filling is one sequence, however many tokens of it are read one by one.
        found = count(tree, secret, bound, size * (longest + 1), margin)
        return {**found.fields(), "extra": {"nodes": tree.nodes}}
    number = max(LEAST, min(MOST, (request.budget - tree.calls) // longest)) // TURN * TURN
    return summary(draw(tree, secret, bound, number, request.seed, EXPLORING, margin=margin), LEVELS[0], size)

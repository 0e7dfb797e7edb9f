"""Exposure due to fine-tuning: the rank of a secret among all fillings by the decrease of its cost in fine-tuning."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from leakage_tasks.attacks.access import NEXT_TOKEN
from leakage_tasks.attacks.causal.contrast import Contrast, reference_named
from leakage_tasks.attacks.causal.proposals import EXPLORING
from leakage_tasks.attacks.causal.rank_draws import DRAWS_MULTIPLE, draw, summary
from leakage_tasks.attacks.causal.rank_estimate import LEAST, MOST
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.causal.secret_path import RankedSecret, SecretPath
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.attacks.signal import CALIBRATED, LOSS, SIGNAL
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.protocols import PredictsNextToken

UNTUNED = Option(
    "untuned",
    str,
    None,
    "with signal=calibrated, the causal model before fine-tuning; default: the target model without its adapter",
)
Rank = Callable[[AttackRequest], AttackResult]
Count = Callable[[RankedSecret, int], Any]


def access(needs: Sequence[type], target: Any, values: Mapping[str, Any]) -> str:
    """Describe the access to the models that the attack requires."""
    return f"{NEXT_TOKEN}, and the same of the model before fine-tuning"


def most_of_rank(request: AttackRequest) -> Calls:
    """Return the most calls of the rank by difference, which reads both models."""
    size, longest = request.canary.attack_space.size, request.target.paths(request.canary.attack_space).longest
    most = size * (longest + 1) if size <= request.budget else max(request.budget, LEAST * longest)
    # The whole tree, or one round of draws, after the secret's path.
    return Calls(steps=most + longest, rounds=3 * (longest + 1)).times(2)


def calibrated_rank(request: AttackRequest, by_cost: Rank, count: Count) -> AttackResult:
    """Compute the rank of the secret by log P before fine-tuning minus log P after it, lowest first.

    Subtracting a reference model's cost is the calibration of Carlini et al. 2021 ("Extracting Training Data from Large
    Language Models", section 5.2) and of Watson et al. 2022 ("On the Importance of Difficulty Calibration in Membership
    Inference Attacks"). A difference may decrease along a path, so no partial filling can be pruned. If
    ``budget`` allows, all fillings are counted; else fillings are drawn at random, by proposals for both signs of the
    difference, and weighted by their probability. If no draw ranks before the secret, the rank is a bound.

    ``extra`` has the exposures by cost alone, after and before fine-tuning (``tuned_exposure``, ``base_exposure``,
    bits). ``by_cost`` computes each of them with its own budget. Raises OptionError if there is no reference model.
    """
    space = request.canary.attack_space
    reference = _reference(request)
    tree = SearchTree(cast(PredictsNextToken, Contrast(request.target, reference)), space)
    # The difference has the rounding noise of both costs.
    margin = request.noise.path_margin(2 * tree.paths.longest)
    secret = SecretPath(tree, tree.path_of(request.canary.secret)).ranked(margin)
    ranked = _ranked(secret, request, count)
    plain = {**request.values, SIGNAL.name: LOSS}
    results = [by_cost(replace(request, target=target, values=plain)) for target in (request.target, reference)]
    tuned, base = (math.log2(space.size / result["rank"]) for result in results)
    extra = {**ranked["extra"], "tuned_exposure": tuned, "base_exposure": base}
    calls = tree.calls + sum(result["model_calls"] for result in results)
    return {**ranked, "log_perplexity": results[0]["log_perplexity"], "model_calls": calls, "extra": extra}


def _reference(request: AttackRequest) -> Any:
    name, target = request.values[UNTUNED.name], request.target
    if name is not None:
        return reference_named(name, target, request.canary.attack_space, UNTUNED.name)
    remove_adapter = getattr(target, "before_fine_tuning", None)
    reference = None if remove_adapter is None else remove_adapter()
    if reference is None:
        raise OptionError(
            f"signal={CALIBRATED} needs the model before fine-tuning: name it with untuned=…, or give base model "
            "and adapter separately (--model_args pretrained=BASE,peft=ADAPTER)"
        )
    return reference


def _ranked(secret: RankedSecret, request: AttackRequest, count: Count) -> AttackResult:
    """Return the finding's fields about the rank: exact if the budget allows all fillings, else estimated."""
    tree, size = secret.explorer, request.canary.attack_space.size
    longest = max(1, tree.paths.longest - 1)
    if size <= request.budget:
        # A filling costs one sequence of the budget, but the tree may read all of its tokens one by one.
        ranked = count(secret, size * (longest + 1))
        return {**ranked.fields(), "extra": {"nodes": tree.nodes}}
    number = max(LEAST, min(MOST, (request.budget - tree.calls) // longest)) // DRAWS_MULTIPLE * DRAWS_MULTIPLE
    return summary(draw(secret, number, request.seed, EXPLORING), size)

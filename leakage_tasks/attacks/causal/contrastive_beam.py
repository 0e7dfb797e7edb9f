"""Extraction by beam search for texts that a model finds likelier than a reference model does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from leakage_tasks.attacks.access import NEXT_TOKEN
from leakage_tasks.attacks.causal.beam import WIDTH, beam_search, most_of_beam
from leakage_tasks.attacks.causal.contrast import Contrast, reference_named
from leakage_tasks.attacks.causal.search_tree import NO_LOGITS, SearchTree
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.core.option import Option
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.protocols import PredictsNextToken

CONTRAST = Option(
    "contrast",
    str,
    None,
    "a causal model with the target's tokenizer, whose log-probability is subtracted; best the model before training",
    required=True,
)


def _access(needs: Sequence[type], target: Any, values: Mapping[str, Any]) -> str:
    return f"{NEXT_TOKEN}, and the same of a reference model"


@register(
    "contrastive-beam",
    "extraction",
    PredictsNextToken,
    remedy=NO_LOGITS,
    options=(WIDTH, CONTRAST),
    access=_access,
    # The model and the reference model, each with its own root.
    most_calls=lambda request: most_of_beam(request).times(2) + Calls(steps=1),
)
def contrastive_beam(request: AttackRequest) -> AttackResult:
    """Return up to ten fillings by beam search on log P(filling) of the model minus that of ``contrast``.

    The difference is the calibration by a reference model of Carlini et al. 2021 ("Extracting Training Data from Large
    Language Models", section 5.2), applied during the search. The search keeps the ``width`` partial fillings
    of each length with the largest difference. A guess's score is −log2 of the ratio in bits; the lower it is, the more
    the model has learnt of the guess. ``model_calls`` counts the sequences that each of the two models scored. Raises
    TargetError if the reference model cannot be loaded or tokenizes the canary differently.
    """
    space, values = request.canary.attack_space, request.values
    pair = Contrast(request.target, reference_named(values["contrast"], request.target, space, "contrast"))
    tree = SearchTree(cast(PredictsNextToken, pair), space)
    tree.path_of(request.canary.secret)
    best = beam_search(tree, values[WIDTH.name], tree.calls + request.budget)
    return tree.result(request.canary.secret, best)

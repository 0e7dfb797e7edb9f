"""Extraction by beam search for what a model finds likelier than another model does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import torch

from leakage_tasks.attacks.access import NEXT_TOKEN
from leakage_tasks.attacks.causal.beam import WIDTH, beam_search
from leakage_tasks.attacks.causal.search_tree import NO_LOGITS, SearchTree
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.causal.target import CausalInContext, CausalTarget
from leakage_tasks.targets.protocols import PredictsNextToken
from leakage_tasks.targets.suffix.target import load_causal_target

CONTRAST = Option(
    "contrast",
    str,
    None,
    "a causal model with the same tokenizer, whose log-probability is taken off; best the weights before training",
    required=True,
)


def _access(needs: Sequence[type], target: Any, settings: Mapping[str, Any]) -> str:
    return f"{NEXT_TOKEN}, and the same of a reference model"


@register(
    "contrastive-beam",
    "extraction",
    PredictsNextToken,
    remedy=NO_LOGITS,
    settings=(WIDTH, CONTRAST),
    access=_access,
)
def contrastive_beam(request: AttackRequest) -> AttackResult:
    """Up to ten fillings by beam search on log P(filling) of the model minus that of ``contrast``.

    The difference is the calibration by a reference model of Carlini et al. 2021 ("Extracting Training Data from Large
    Language Models", section 5.2), applied while searching. The ``width`` fillings of each length with the largest
    difference go on; a guess' score is −log2 of the ratio in bits, the lower the more the model has learnt of it.
    ``model_calls`` counts the sequences that each of the two models scored. Raises TargetError for a model that cannot
    be loaded, and for one that reads the canary as other tokens.
    """
    space, settings = request.canary.attack_space, request.settings
    pair = Contrast(request.target, _reference(request.target, settings["contrast"], space))
    tree = SearchTree(cast(PredictsNextToken, pair), space)
    tree.path_of(request.canary.secret)
    best = beam_search(tree, settings[WIDTH.name], tree.calls + request.budget)
    return tree.result(request.canary.secret, best)


class Contrast:
    """Two targets of one tokenizer as one, whose costs in bits are the first's minus the second's."""

    def __init__(self, target: PredictsNextToken, reference: PredictsNextToken) -> None:
        self.target, self.reference = target, reference

    def paths(self, space: Space) -> Any:
        """The token paths of a space, which are those of both."""
        return self.target.paths(space)

    def start(self, prefix: Sequence[int], columns: IntArray) -> tuple[Any, float, FloatArray]:
        """See :class:`~leakage_tasks.targets.protocols.PredictsNextToken`."""
        mine, cost, following = self.target.start(prefix, columns)
        other, less, fewer = self.reference.start(prefix, columns)
        return (mine, other), cost - less, following - fewer

    def extend(
        self, states: Sequence[Any], which: IntArray, rows: IntArray, tokens: IntArray, columns: IntArray
    ) -> tuple[Any, FloatArray]:
        """See :class:`~leakage_tasks.targets.protocols.PredictsNextToken`."""
        mine, following = self.target.extend([state[0] for state in states], which, rows, tokens, columns)
        other, fewer = self.reference.extend([state[1] for state in states], which, rows, tokens, columns)
        return (mine, other), following - fewer

    def rows(self, length: int) -> int:
        """How many texts of ``length`` tokens one batch may hold."""
        return min(self.target.rows(length), self.reference.rows(length))

    def state_bytes(self, state: Any) -> int:
        """Memory that a state of both keeps occupied."""
        return self.target.state_bytes(state[0]) + self.reference.state_bytes(state[1])


def _reference(target: Any, name: str, space: Space) -> PredictsNextToken:
    """The reference model as a target that reads the space as ``target`` does, on its device and in its precision."""
    model = getattr(target, "model", None)
    where = (torch.device("cpu"), None) if model is None else (model.device, model.dtype)
    found: CausalTarget = _loaded(name, *where)
    if isinstance(target, CausalInContext):
        found = found.in_context(target.context, space)
    mine, other = target.paths(space), found.paths(space)
    if list(mine.prefix) != list(other.prefix) or mine.columns.tolist() != other.columns.tolist():
        raise TargetError(f"contrast={name} reads the canary as other tokens: give one with the same tokenizer")
    return found


@lru_cache(maxsize=1)
def _loaded(name: str, device: torch.device, dtype: torch.dtype | None) -> CausalTarget:
    return load_causal_target(name, f"contrast={name}", device, None, dtype)

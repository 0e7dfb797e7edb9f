"""What an attacker must have of a model for an attack to run, in words for reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leakage_tasks.targets import protocols

LIKELIHOOD = "black box: likelihoods of texts of the attacker's choice"
MASKS = "black box: probabilities of tokens, each masked, in texts of the attacker's choice"
NEXT_TOKEN = "black box: next-token probabilities after texts of the attacker's choice"
TEXT = "black box: text the model writes"
LABELS = "black box: probabilities of the classes of texts of the attacker's choice"
LABELS_AND_TAGS = "black box: probabilities of label and tags of texts of the attacker's choice"
WEIGHTS = "white box: the weights"
GRADIENTS = f"{WEIGHTS}, for gradients"
SECOND = "and another model, which proposes candidates"
REFERENCE = "and another classifier of the same labels"
_TAKES: Mapping[type, str] = {
    protocols.PredictsNextToken: NEXT_TOKEN,
    protocols.ScoresSequences: LIKELIHOOD,
    protocols.CompletesText: TEXT,
    protocols.ScoresLabels: LABELS,
    protocols.RelaxesTokens: GRADIENTS,
}


def reads_tags(target: Any) -> bool:
    """Whether a target's costs are a tagger's, of label and tags: it mixes words, but has no matrix of embeddings."""
    return isinstance(target, protocols.RelaxesTokens) and not isinstance(target, protocols.DifferentiableInputs)


def access(needs: Sequence[type], target: Any, settings: Mapping[str, Any]) -> str:
    """What an attack with these needs (the first that ``target`` serves) and these settings takes."""
    second = f", {REFERENCE}" if settings.get("signal") == "calibrated" else ""
    return f"{_taken(needs, target, settings)}{second}"


def _taken(needs: Sequence[type], target: Any, settings: Mapping[str, Any]) -> str:
    if settings.get("shortlist"):
        return GRADIENTS
    need = next(need for need in needs if isinstance(target, need))
    if need is protocols.ScoresLabels and reads_tags(target):
        return LABELS_AND_TAGS
    if need is protocols.ScoresSequences and isinstance(target, protocols.FillsMasks):
        return MASKS
    if need is not protocols.ProposesValues:
        return _TAKES.get(need, "not declared")
    if target.generator_name == "frankenstein":
        return f"{WEIGHTS}, for candidates"
    return LABELS if target.generator_name == "exhaustive" else f"{LABELS}, {SECOND}"

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
    protocols.WritesTexts: TEXT,
    protocols.ScoresLabels: LABELS,
    protocols.RelaxesTokens: GRADIENTS,
}


def reads_tags(target: Any) -> bool:
    """Whether a target's costs are a tagger's, of label and tags: it mixes words, but has no matrix of embeddings."""
    return isinstance(target, protocols.RelaxesTokens) and not isinstance(target, protocols.DifferentiableInputs)


def access_by_protocol(needs: Sequence[type], target: Any, values: Mapping[str, Any]) -> str:
    """What an attack takes that asks ``target`` by the first of its ``needs`` that this offers."""
    need = next(need for need in needs if isinstance(target, need))
    if need is protocols.ScoresSequences and isinstance(target, protocols.FillsMasks):
        return MASKS
    return getattr(target, "access", None) or _TAKES.get(need, "not declared")


def access_to_labels(needs: Sequence[type], target: Any, values: Mapping[str, Any]) -> str:
    """What an attack takes that asks for labels; a shortlist needs gradients, a calibrated signal a reference."""
    taken = GRADIENTS if values.get("shortlist") else LABELS_AND_TAGS if reads_tags(target) else LABELS
    return f"{taken}, {REFERENCE}" if values.get("signal") == "calibrated" else taken


def access_to_candidates(needs: Sequence[type], target: Any, values: Mapping[str, Any]) -> str:
    """What an attack takes that a generator proposes candidates to, and a classifier labels them."""
    of_weights = target.generator_name == "frankenstein"
    taken = f"{WEIGHTS}, for candidates" if of_weights else LABELS
    second = "" if of_weights or target.generator_name == "exhaustive" else f", {SECOND}"
    return taken + second + (f", {REFERENCE}" if values.get("signal") == "calibrated" else "")

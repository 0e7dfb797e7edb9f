"""Descriptions, for reports, of the access to a model that an attack requires."""

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
    """Return True for a tagger, whose costs cover the label and the tags.

    A tagger mixes words, but has no embedding matrix.
    """
    return isinstance(target, protocols.RelaxesTokens) and not isinstance(target, protocols.DifferentiableInputs)


def access_by_protocol(needs: Sequence[type], target: Any, values: Mapping[str, Any]) -> str:
    """Describe the access that an attack requires: the access of the first protocol in ``needs`` that ``target``
    has."""
    need = next(need for need in needs if protocols.serves(target, need))
    if need is protocols.ScoresSequences and protocols.serves(target, protocols.FillsMasks):
        return MASKS
    return getattr(target, "access", None) or _TAKES.get(need, "not declared")


def access_to_labels(needs: Sequence[type], target: Any, values: Mapping[str, Any]) -> str:
    """Describe the access that an attack on labels requires.

    With a shortlist it also needs gradients; with the calibrated signal it also needs a reference classifier.
    """
    access = GRADIENTS if values.get("shortlist") else LABELS_AND_TAGS if reads_tags(target) else LABELS
    return f"{access}, {REFERENCE}" if values.get("signal") == "calibrated" else access


def access_to_candidates(needs: Sequence[type], target: Any, values: Mapping[str, Any]) -> str:
    """Describe the access that an attack requires if a generator proposes candidates and a classifier labels them."""
    uses_weights = target.generator_name == "frankenstein"
    access = f"{WEIGHTS}, for candidates" if uses_weights else LABELS
    second = "" if uses_weights or target.generator_name == "exhaustive" else f", {SECOND}"
    return access + second + (f", {REFERENCE}" if values.get("signal") == "calibrated" else "")

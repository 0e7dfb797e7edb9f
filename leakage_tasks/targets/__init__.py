"""What an attack may ask of a model: one capability, one protocol."""

from leakage_tasks.targets.causal import CausalTarget
from leakage_tasks.targets.classifier import ClassifierTarget
from leakage_tasks.targets.protocols import (
    CompletesText,
    DifferentiableInputs,
    Paths,
    PredictsNextToken,
    Proposal,
    ProposesValues,
    ReadsSource,
    ScoresLabels,
    ScoresSequences,
)
from leakage_tasks.targets.seq2seq import Seq2SeqTarget

__all__ = [
    "CausalTarget",
    "ClassifierTarget",
    "CompletesText",
    "DifferentiableInputs",
    "Paths",
    "PredictsNextToken",
    "Proposal",
    "ProposesValues",
    "ReadsSource",
    "ScoresLabels",
    "ScoresSequences",
    "Seq2SeqTarget",
]

"""What an attack may ask of a model: one capability, one protocol."""

from leakage_tasks.targets.causal import CausalTarget
from leakage_tasks.targets.classifier import ClassifierTarget
from leakage_tasks.targets.masked_target import MaskedTarget
from leakage_tasks.targets.protocols import (
    CompletesText,
    DifferentiableInputs,
    FillsMasks,
    Paths,
    PredictsNextToken,
    Proposal,
    ProposesValues,
    ReadsSource,
    ReadsTags,
    RelaxesTokens,
    ScoresLabels,
    ScoresSequences,
    ScoresUpTo,
)
from leakage_tasks.targets.relaxation import Relaxation
from leakage_tasks.targets.seq2seq import Seq2SeqTarget
from leakage_tasks.targets.tagger import TaggerTarget

__all__ = [
    "CausalTarget",
    "ClassifierTarget",
    "CompletesText",
    "DifferentiableInputs",
    "FillsMasks",
    "MaskedTarget",
    "Paths",
    "PredictsNextToken",
    "Proposal",
    "ProposesValues",
    "ReadsSource",
    "ReadsTags",
    "Relaxation",
    "RelaxesTokens",
    "ScoresLabels",
    "ScoresSequences",
    "ScoresUpTo",
    "Seq2SeqTarget",
    "TaggerTarget",
]

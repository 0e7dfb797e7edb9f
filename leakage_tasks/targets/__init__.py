"""Models under attack: one protocol for each capability that an attack may need, one folder for each model family."""

from importlib import import_module
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from leakage_tasks.targets.causal.target import CausalTarget
    from leakage_tasks.targets.classifier.target import ClassifierTarget
    from leakage_tasks.targets.masked.target import MaskedTarget
    from leakage_tasks.targets.relaxation import Relaxation
    from leakage_tasks.targets.seq2seq.target import Seq2SeqTarget
    from leakage_tasks.targets.tagger.target import TaggerTarget

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

_FAMILIES = ("CausalTarget", "ClassifierTarget", "MaskedTarget", "Seq2SeqTarget", "TaggerTarget")


def __getattr__(name: str) -> object:
    """Import lazily the names that need torch; the target of a family is in module ``FAMILY.target``."""
    if name in _FAMILIES:
        return getattr(import_module(f"{__name__}.{name.removesuffix('Target').lower()}.target"), name)
    if name == "Relaxation":
        return import_module(f"{__name__}.relaxation").Relaxation
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""What an attack may ask of a model: one capability, one protocol."""

from leakage_tasks.targets.causal import CausalTarget
from leakage_tasks.targets.protocols import CompletesText, Paths, PredictsNextToken, ScoresSequences

__all__ = ["CausalTarget", "CompletesText", "Paths", "PredictsNextToken", "ScoresSequences"]

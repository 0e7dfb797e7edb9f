"""Classes of attacks that data protection authorities name, which tasks and attacks declare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

AttackClass = Literal[
    "membership inference",
    "attribute inference",
    "exfiltration",
    "regurgitation",
    "model inversion",
    "reconstruction",
]
MEANINGS: Mapping[AttackClass, str] = {
    "membership inference": "was a given text, or data set, in the training data?",
    "attribute inference": "which of all possible values completes a record whose other parts the attacker knows?",
    "exfiltration": "can training data be carried off through the model's interface, at scale?",
    "regurgitation": "does the model write training text, with or without a prompt from it?",
    "model inversion": "which input belongs to an output of the model, such as a class?",
    "reconstruction": "can a search rebuild a training record, or the unknown part of a record, from the model?",
}
"""The question that each class answers, in the reading of this package."""

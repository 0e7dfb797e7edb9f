"""Planted canaries and controls in pairs, for guesses at which of the two was planted."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from leakage_tasks.attacks.finding import Finding


@dataclass(frozen=True)
class Matched:
    """Guesses at which canary of each pair was planted: the one of higher exposure; equals are no guess.

    ``copies`` is how many texts the canary planted most has in the data, its supporting canaries' among them.
    """

    pairs: int
    guesses: int
    right: int
    copies: int

    @property
    def words(self) -> str:
        """What a bound on ε rests on."""
        tied = self.pairs - self.guesses
        return f"{self.right} of {self.guesses} pairs guessed right" + (f", {tied} tied" if tied else "")


def match(findings: Iterable[Finding]) -> Matched:
    """Planted canaries and controls of kind ``random`` and the same |R| in pairs, at random by their ids alone."""
    groups: dict[float, tuple[list[Finding], list[Finding]]] = defaultdict(lambda: ([], []))
    for found in findings:
        if found.kind == "random" and found.exposure is not None:
            groups[found.log2_size][not found.planted].append(found)
    pairs = [
        (planted, control)
        for both in groups.values()
        for planted, control in zip(*(sorted(each, key=_lot) for each in both), strict=False)
    ]
    leads = [bits_of(planted) - bits_of(control) for planted, control in pairs]
    copies = max((planted.repetitions + planted.supporting for planted, _ in pairs), default=1)
    return Matched(len(pairs), sum(map(bool, leads)), sum(lead > 0 for lead in leads), max(1, copies))


def _lot(found: Finding) -> str:
    """A place in line that depends on the canary's id and nothing that was measured."""
    return hashlib.sha256(f"pair:{found.canary}".encode()).hexdigest()


def bits_of(found: Finding) -> float:
    """The exposure of a finding that has one."""
    assert found.exposure is not None
    return found.exposure

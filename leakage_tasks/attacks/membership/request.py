"""Options of the membership attacks."""

from __future__ import annotations

from dataclasses import dataclass

from leakage_tasks.attacks.membership.registry import MEMBERSHIP_ATTACKS, MembershipAttack, Need, in_order
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import declared, near, options_of

AUTO, ALL, WORDS = "auto", "all", "words"
SHOTS, NUMBER = 7, 20


@dataclass(frozen=True)
class MembershipRequest:
    """The attacks of a run and their options. Raises OptionError for invalid values."""

    attacks: str = declared(
        AUTO, "attacks, joined by colons; all; auto takes those that need no further input and at most one more pass"
    )
    tokens: int = declared(512, "maximum number of tokens read from the beginning of each text", minimum=2)
    k: int = declared(20, "share of a text's tokens that min-k and min-k++ use, in percent", minimum=1, maximum=100)
    reference: str | None = declared(
        None,
        "causal model for the attack ratio, or several models, joined by colons",
        usual="the model without its adapter, if it has one",
    )
    frequencies: str | None = declared(
        None, "reference corpus for the attack dc-pdd, to count tokens in: a file, a folder or hub:NAME"
    )
    clip: float = declared(0.01, "largest term of a token in dc-pdd", minimum=1e-9)
    shots: int | None = declared(
        None, "number of non-members in the context of recall; turns recall on", minimum=1, usual=str(SHOTS)
    )
    neighbours: str | None = declared(
        None,
        "source of similar texts for the attack neighbourhood, which it turns on: a masked language model, or words",
        usual=WORDS,
    )
    neighbour_number: int = declared(NUMBER, "number of similar texts of neighbourhood", minimum=1)
    seed: int = declared(0, "random seed")

    def __post_init__(self) -> None:
        if "" in self.references or len(set(self.references)) < len(self.references):
            raise OptionError(f"reference={self.reference}: name each model once, joined by colons")
        names = self.attacks.split(":")
        if self.attacks in (AUTO, ALL):
            return
        for name in names:
            if name not in MEMBERSHIP_ATTACKS:
                known = MEMBERSHIP_ATTACKS.names()
                raise OptionError(
                    f"attacks has {name!r}, no membership attack: use {', '.join(known)}{near(name, known)}"
                )
        if len(set(names)) < len(names):
            raise OptionError("attacks names an attack twice: name each once, joined by colons")

    @property
    def references(self) -> list[str]:
        """The names of the reference models."""
        return [] if self.reference is None else self.reference.split(":")

    @property
    def named(self) -> bool:
        """True if the user named the attacks, so that one that the model cannot serve is an error."""
        return self.attacks not in (AUTO, ALL)

    @property
    def share(self) -> float:
        """The share of tokens of min-k, from 0 to 1."""
        return self.k / 100

    def chosen(self) -> list[MembershipAttack]:
        """Return the attacks that the options select, before the model is known."""
        if self.named:
            names = self.attacks.split(":")
            return [attack for attack in in_order() if attack.name in names]
        unasked: set[Need] = set() if self.attacks == ALL else {"context", "neighbours"}
        if self.shots is not None:
            unasked.discard("context")
        if self.neighbours is not None:
            unasked.discard("neighbours")
        return [attack for attack in in_order() if not unasked.intersection(attack.needs)]

    def needs(self, need: Need) -> bool:
        """Return True if a selected attack uses a figure."""
        return any(need in attack.needs for attack in self.chosen())

    @property
    def context_texts(self) -> int:
        """Number of non-members in the context of recall; 0 without recall."""
        return (self.shots or SHOTS) if self.needs("context") else 0


REQUEST_OPTIONS = options_of(MembershipRequest)

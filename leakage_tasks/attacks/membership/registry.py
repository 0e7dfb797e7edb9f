"""Membership attacks by name: each declares the figures of a text that it needs and its access to the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from leakage_tasks.attacks.access import LIKELIHOOD, NEXT_TOKEN
from leakage_tasks.attacks.membership.text_record import TextRecord
from leakage_tasks.core.registry import Registry, check_callable

Need = Literal["tokens", "distributions", "lowercase", "reference", "context", "frequencies", "neighbours"]
"""A figure besides the log-likelihood: log-probabilities of tokens, moments of whole distributions, the log-likelihood
of the lower-cased text, under a reference model, after a context of non-members, frequencies of the tokens in a
reference corpus, and log-likelihoods of similar texts."""
TOKENS = "black box: log-probabilities of the tokens of texts of the attacker's choice"
_ADDED: Mapping[Need, str] = {
    "reference": "and a reference model",
    "context": "and texts that were not in the training data",
    "frequencies": "and a reference corpus",
}
Score = Callable[[TextRecord], float]


@dataclass(frozen=True)
class MembershipAttack:
    """An attack: ``score`` returns a number that is higher if the text is more likely a member.

    ``needs`` are the figures that it uses besides the log-likelihood, and ``passes`` describes the forward passes that
    they cost besides the one over each text.
    """

    name: str
    words: str
    score: Score
    needs: tuple[Need, ...] = ()
    passes: str = ""

    @property
    def access(self) -> str:
        """The access to the model that the attack requires."""
        black = NEXT_TOKEN if "distributions" in self.needs else TOKENS if "tokens" in self.needs else LIKELIHOOD
        return ", ".join([black, *(words for need, words in _ADDED.items() if need in self.needs)])

    @property
    def row(self) -> str:
        """The name of the attack in names of metrics."""
        return self.name.replace("++", "_plus_plus").replace("-", "_")


MEMBERSHIP_ATTACKS: Registry[MembershipAttack] = Registry(
    "membership attack", "leakage_tasks.attacks.membership.scores"
)
"""All membership attacks by name."""


def register_membership(name: str, words: str, *needs: Need, passes: str = "") -> Callable[[Score], Score]:
    """Register a function of a :class:`TextRecord` as a membership attack.

    Args:
        name: Name of the attack.
        words: Description of the score in one line.
        needs: Figures that the function uses besides the log-likelihood of the text.
        passes: Forward passes besides the one over each text, in words.

    Returns:
        A decorator that returns the function unchanged.

    Raises:
        PluginError: The name is taken, or the function does not take one argument.
    """

    def add(score: Score) -> Score:
        check_callable(f"membership attack {name!r}", score, ["record"])
        MEMBERSHIP_ATTACKS.register(name, MembershipAttack(name, words, score, needs, passes), score)
        return score

    return add


def in_order() -> Iterator[MembershipAttack]:
    """Yield all attacks, the ones with the fewest needs first; ties of attacks are decided in this order."""
    return iter(sorted(MEMBERSHIP_ATTACKS.values(), key=lambda attack: (len(attack.needs), attack.name)))

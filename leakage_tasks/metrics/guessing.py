"""Guesses at the coins that decided on planting, on which one-run audits of differential privacy are based."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import Finding
from leakage_tasks.metrics.audit_figure import bits_of

_CONTROL = re.compile(r"-control-\d+(?=-\w+\Z)")
"""The part of the id of a natural secret's control that the id of the secret lacks."""
FEWEST_GUESSES = 5
"""Smallest number of guesses for which :attr:`Guesses.numbers` allows an abstention from all others."""


@dataclass(frozen=True)
class Guesses:
    """Guesses at ``coins`` fair coins, the surest first; each is True if it is right.

    The order depends on the model alone, so any number of first guesses is a valid attack. ``copies`` is the largest
    number of texts with one canary in the data, including its supporting canaries, and ``rows`` the number of texts
    that differ between the two sides of a coin.
    """

    coins: int
    surest: tuple[bool, ...]
    copies: int
    rows: int

    @property
    def right(self) -> int:
        """Number of right guesses."""
        return sum(self.surest)

    @property
    def numbers(self) -> list[int]:
        """Numbers of first guesses at which a bound may be evaluated: all, half of them, a quarter, and so on."""
        number, numbers = len(self.surest), [len(self.surest)]
        while (number := number // 2) >= FEWEST_GUESSES:
            numbers.append(number)
        return numbers


def match(findings: Iterable[Finding]) -> Guesses:
    """Guess which canary of each pair was planted: the one with the higher exposure; a tie is no guess.

    Pairs are a planted canary and a control of kind ``random``, one family and one |R|, chosen at random by their ids
    alone. A natural secret that its format makes uniform is paired with its own control, which has the same context.
    """
    groups: dict[tuple[str, float], tuple[list[Finding], list[Finding]]] = defaultdict(lambda: ([], []))
    for finding in findings:
        if finding.exposure is not None and _is_uniform(finding):
            name = finding.family if finding.kind == "random" else _CONTROL.sub("", finding.canary)
            groups[name, finding.log2_size][not finding.planted].append(finding)
    pairs = [
        (planted, control)
        for both in groups.values()
        for planted, control in zip(*(sorted(group, key=_random_key) for group in both), strict=False)
    ]
    differences = sorted((bits_of(planted) - bits_of(control) for planted, control in pairs), key=abs, reverse=True)
    copies = _most_copies(planted for planted, _ in pairs)
    return Guesses(len(pairs), tuple(gap > 0 for gap in differences if gap), copies, 2 * copies)


def by_coins(findings: Sequence[Finding]) -> Guesses:
    """Guess that the half of the canaries with the highest exposures were planted, among those that had a coin.

    Only canaries of kind ``random``, and of the |R| that most of them have, are compared.
    """
    sizes: dict[float, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.coin and finding.kind == "random":
            sizes[finding.log2_size].append(finding)
    drawn = max(sizes.values(), key=len, default=[])
    ordered = sorted(drawn, key=lambda finding: (-bits_of(finding), _random_key(finding)))
    copies = _most_copies(finding for finding in drawn if finding.planted)
    return Guesses(len(drawn), tuple(finding.planted for finding in ordered[: len(drawn) // 2]), copies, copies)


def _most_copies(planted: Iterable[Finding]) -> int:
    return max(1, max((one.copies + one.supporting for one in planted), default=1))


def _is_uniform(finding: Finding) -> bool:
    """Return True if any filling was equally likely to be the secret, so that a control could have been the canary."""
    return finding.kind == "random" or (finding.kind == NATURAL and finding.uniform is True)


def _random_key(finding: Finding) -> str:
    # Ids in samples of others may hold half a surrogate pair.
    return hashlib.sha256(f"pair:{finding.canary}".encode(errors="surrogatepass")).hexdigest()

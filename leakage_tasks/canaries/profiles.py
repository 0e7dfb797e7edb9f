"""Profiles: numbers of canaries, repetitions and controls for the purposes of an audit."""

from __future__ import annotations

from dataclasses import dataclass

from leakage_tasks.core.errors import OptionError


@dataclass(frozen=True)
class Profile:
    """The number of planted canaries, the repetitions assigned to them in turn, and the number of controls.

    ``headline`` is False if the results are too uncertain for a primary metric.
    """

    count: int
    repetitions: tuple[int, ...]
    controls: int
    headline: bool = True


TIERS = (1, 4, 16)
FEWEST_OF_A_TIER = 10
"""Minimum number of canaries with an equal number of copies for an interval."""
ROUTINE = "routine"
PROFILES = {
    "smoke": Profile(6, TIERS, 6, headline=False),
    ROUTINE: Profile(32, TIERS, 100),
    "powered": Profile(96, TIERS, 200),
}
"""With 80 % power, ``routine`` detects an extraction rate of 5 % over all its canaries, ``powered`` in each tier.

100 controls are the minimum for a true positive rate at a false positive rate of 1 % (see
:mod:`leakage_tasks.stats.power`).
"""
NAMES = f"{', '.join(list(PROFILES)[:-1])} or {list(PROFILES)[-1]}"


def profile_of(name: str) -> Profile:
    """Return the profile with this name. Raises OptionError if there is no such profile."""
    if name not in PROFILES:
        raise OptionError(f"--profile is {name!r}: use {NAMES}")
    return PROFILES[name]


def has_headline(name: str | None) -> bool:
    """Return True if canaries of this profile give a primary metric; an unknown name or None also returns True."""
    return name not in PROFILES or PROFILES[name].headline

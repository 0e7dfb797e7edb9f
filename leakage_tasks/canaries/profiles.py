"""How many canaries, copies and controls an audit has, by what it is for."""

from __future__ import annotations

from dataclasses import dataclass

from leakage_tasks.core.errors import OptionError


@dataclass(frozen=True)
class Profile:
    """Planted canaries in all, the copies they get in turn, and controls; ``headline`` is whether figures count."""

    count: int
    repetitions: tuple[int, ...]
    controls: int
    headline: bool = True


TIERS = (1, 4, 16)
FEWEST_OF_A_TIER = 10
"""Canaries planted equally often that an interval takes at least."""
ROUTINE = "routine"
PROFILES = {
    "smoke": Profile(6, TIERS, 6, headline=False),
    ROUTINE: Profile(32, TIERS, 100),
    "powered": Profile(96, TIERS, 200),
}
"""With 80 % power ``routine`` shows an extraction rate of 5 % over all its canaries, ``powered`` in each tier; 100
controls are the fewest for a true positive rate at 1 % false ones (see :mod:`leakage_tasks.stats.power`)."""
NAMES = f"{', '.join(list(PROFILES)[:-1])} or {list(PROFILES)[-1]}"


def profile_of(name: str) -> Profile:
    """The profile of this name. Raises OptionError."""
    if name not in PROFILES:
        raise OptionError(f"--profile is {name!r}: use {NAMES}")
    return PROFILES[name]


def has_headline(name: str | None) -> bool:
    """Whether the figures of canaries of this profile count; a name from elsewhere, or none, does not speak against."""
    return name not in PROFILES or PROFILES[name].headline

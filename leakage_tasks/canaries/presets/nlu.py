"""The canaries of Parikh, Dupuy and Gupta, "Canary extraction in NLU models" (2022), Table 1 and appendix A."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.generate import make_canaries
from leakage_tasks.canaries.presets.registry import PresetRequest, register_preset
from leakage_tasks.core.errors import OptionError

REPETITIONS = (100,)
UNKNOWN = 4
MOST_UNKNOWN = 20
PHONE_DIGITS, AREA_DIGITS = 10, 3
RANDOM = "random"

COLORS = word_list(
    "colors",
    ("red", "green", "lilac", "blue", "yellow", "brown", "cyan", "magenta", "orange", "pink", "purple", "mauve"),
)
"""The 12 colours of footnote 3, in the paper's order."""


@dataclass(frozen=True)
class Pattern:
    """A row of Table 1: the words before the unknown words, the alphabet of the unknown words, and the intent."""

    known: str
    alphabet: str
    intent: str


PATTERNS = {
    "call": Pattern("call", "digit_words", "CallIntent"),
    "pin": Pattern("my pin code is", "digit_words", "PinIntent"),
    "color": Pattern("color", COLORS.name, "ColorIntent"),
}


def nlu_canaries(
    pattern: str,
    count: int = 1,
    unknown: int | None = None,
    *,
    label: str | None = None,
    area_code: str | None = None,
    repetitions: Sequence[int] = REPETITIONS,
    controls: int = 0,
    seed: int = 0,
    id_prefix: str = "",
) -> list[Canary]:
    """Make ``count`` canaries of a pattern (``call``, ``pin`` or ``color``), then ``controls`` of this pattern.

    The unknown words are drawn uniformly. They form one entity, ``B-canary I-canary …``, after words tagged ``O``.
    Warns if several canaries share a prefix and would compete for it: the paper plants one canary per model.

    Args:
        pattern: The name of the pattern.
        count: The number of planted canaries.
        unknown: The number of unknown words (default: 4; the paper uses 4, 6, 8 and 10).
        label: The intent (default: the pattern's intent).
        area_code: For ``call`` only: the known first three digits of a ten-digit number (Table 4). They are part of the
            template and of the entity; seven digits are unknown. ``random`` draws one area code for all canaries.
        repetitions: Numbers of copies, assigned to the canaries in turn.
        controls: The number of controls.
        seed: The seed of all random choices.
        id_prefix: The text before every id.

    Returns:
        The canaries and controls.

    Raises:
        OptionError: For invalid arguments; the message names the command-line option.
    """
    if pattern not in PATTERNS:
        raise OptionError(f"unknown NLU pattern {pattern!r}: use {', '.join(PATTERNS)}")
    row = PATTERNS[pattern]
    area = _area(pattern, area_code, unknown, seed)
    number = PHONE_DIGITS - AREA_DIGITS if area else UNKNOWN if unknown is None else unknown
    if not 1 <= number <= MOST_UNKNOWN:
        raise OptionError(f"--unknown is {number}: give 1 to {MOST_UNKNOWN} (the paper's are 4, 6, 8 and 10)")
    words = row.known.split()
    entity = len(area) + number
    return make_canaries(
        " ".join([*words, *area, f"{{{row.alphabet}:{number}}}"]),
        count,
        repetitions=repetitions,
        controls=controls,
        seed=seed,
        alphabets={COLORS.name: COLORS},
        label=row.intent if label is None else label,
        tags=["O"] * len(words) + ["B-canary"] + ["I-canary"] * (entity - 1),
        id_prefix=id_prefix,
    )


def _requested(request: PresetRequest) -> list[Canary]:
    options = request.pick("count", "unknown", "area_code")
    return nlu_canaries(request.preset.removeprefix("nlu-"), **options, **request.shared)


_TAKES = ("count", "unknown", "repetitions", "label", "data", "label_column")
for _pattern in PATTERNS:
    register_preset(f"nlu-{_pattern}", *_TAKES, *(["area_code"] if _pattern == "call" else []))(_requested)


def _area(pattern: str, code: str | None, unknown: int | None, seed: int) -> str:
    """Return the known digits of the number, or an empty string without an area code."""
    if code is None:
        return ""
    if pattern != "call":
        raise OptionError(f"--area-code goes with --preset nlu-call, not with nlu-{pattern}: leave it out")
    if unknown not in (None, PHONE_DIGITS - AREA_DIGITS):
        raise OptionError(f"--unknown is {unknown}: with --area-code 7 of 10 digits are unknown: leave it out")
    if code == RANDOM:
        return f"{random.Random(f'area-code:{seed}').randrange(10**AREA_DIGITS):0{AREA_DIGITS}d}"
    if len(code) != AREA_DIGITS or not (code.isascii() and code.isdigit()):
        raise OptionError(f"--area-code is {code!r}: give three digits, or random")
    return code

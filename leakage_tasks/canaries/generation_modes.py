"""The options of ``leakage canaries``, and which of them go with which way to make canaries."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from leakage_tasks.canaries.canary import FAMILIES
from leakage_tasks.canaries.presets.registry import COUNTED, PRESETS
from leakage_tasks.canaries.profiles import ROUTINE, profile_of
from leakage_tasks.core.errors import OptionError, on_command_line
from leakage_tasks.core.option import near

SEED_BITS = 48
"""Of a seed that nobody chose: more than can be tried out, and a whole number for every reader of JSON."""


@dataclass(frozen=True)
class CanaryOptions:
    """The options of ``leakage canaries`` under their own names; None where one was left out."""

    template: str | None = None
    preset: str | None = None
    family: str | None = None
    count: int | None = None
    repetitions: str | None = None
    controls: int | None = None
    profile: str | None = None
    seed: int = field(default_factory=lambda: secrets.randbits(SEED_BITS))
    id_prefix: str = ""
    tokenizer: str | None = None
    model: str | None = None
    temperature: float | None = None
    role: str | None = None
    words: list[str] | None = None
    known: str | None = None
    source: str | None = None
    tags: str | None = None
    label: str | None = None
    data: Path | None = None
    label_column: str | None = None
    text_column: str | None = None
    split: str | None = None
    supporting: str | None = None
    supporting_labels: str | None = None
    supporting_slots: int | None = None
    supporting_repetitions: int | None = None
    unknown: int | None = None
    area_code: str | None = None
    sentences: Path | None = None
    labels: str | None = None
    position: int | None = None
    conjoin: bool | None = None
    targets: str | None = None
    from_text: Path | None = None
    detect: str | None = None
    context: int | None = None
    reveal: bool | None = None
    settings: list[str] | None = None


_COMMON = {"controls", "seed", "id_prefix", "text_column", "split"}
_SIZES = ("count", "repetitions", "controls")
_OWN = {
    "--template": {"template", "words", "known", "source", "tags", "supporting_slots", *COUNTED},
    "--family": {"family", "data", "role", "label", "unknown", "tokenizer", "model", "temperature", "profile", *_SIZES},
    "--from-text": {"from_text", "detect", "context", "reveal"},
}
"""The options of each way to make canaries, presets apart."""


def with_profile(request: CanaryOptions) -> CanaryOptions:
    """The request with the numbers of its profile: of ``routine`` where a template or family comes without any."""
    by_hand = [name for name in _SIZES if getattr(request, name) is not None]
    if request.profile is not None and by_hand:
        raise OptionError(
            f"--profile {request.profile} says how many of all there are: leave out --{' and --'.join(by_hand)}, or "
            "the profile"
        )
    usual = request.template is not None or request.family is not None
    name = ROUTINE if usual and not by_hand and request.profile is None else request.profile
    if name is None:
        return request
    profile = profile_of(name)
    copies = ",".join(map(str, profile.repetitions))
    return replace(request, profile=name, count=profile.count, repetitions=copies, controls=profile.controls)


def check_options(request: CanaryOptions) -> None:
    """Raise OptionError for no way or several, and for an option that does not go with the one asked for."""
    _, own = _way(request)
    for option in fields(request):
        value = getattr(request, option.name)
        if value is not None and value is not False and option.name not in _COMMON | own:
            presets = {f"--preset {name}": {"preset", *PRESETS[name].takes} for name in PRESETS.own()}
            ways = {"--template": _OWN["--template"], **presets, **_OWN}
            owners = [name for name, takes in ways.items() if option.name in takes] or ["presets that have options"]
            raise OptionError(f"{on_command_line(option.name)} goes with {' or '.join(owners)}: leave it out")


def _way(request: CanaryOptions) -> tuple[str, set[str]]:
    """Which of the ways to make canaries was asked for, and the options it takes."""
    names = PRESETS.names()
    known = f"{', '.join(names[:-1])} or {names[-1]}"
    if request.preset is not None and request.preset not in PRESETS:
        raise OptionError(f"--preset is {request.preset!r}: use {known}{near(request.preset, names)}")
    ways = {way: getattr(request, way.removeprefix("--").replace("-", "_")) for way in (*_OWN, "--preset")}
    asked = [way for way, value in ways.items() if value is not None]
    if len(asked) != 1:
        raise OptionError(
            f"give one of --template, --preset ({known}), --family ({', '.join(FAMILIES)}) and --from-text, such as "
            "--template 'Pin of {unique}: {digits:6}.'"
        )
    if request.preset is None:
        return asked[0], _OWN[asked[0]]
    preset = PRESETS[request.preset]
    return asked[0], {"preset", *preset.takes, *(["settings"] if preset.options else [])}

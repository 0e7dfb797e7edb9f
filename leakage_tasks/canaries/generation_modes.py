"""The options of ``leakage canaries``, and the options that each generation mode accepts."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from leakage_tasks.canaries.canary import FAMILIES
from leakage_tasks.canaries.presets.registry import COUNTED, PRESETS
from leakage_tasks.canaries.profiles import ROUTINE, profile_of
from leakage_tasks.core.errors import OptionError, on_command_line
from leakage_tasks.core.former_names import PRESET_OPTIONS, accept_former_names
from leakage_tasks.core.option import near

SEED_BITS = 48
"""Number of bits of a random seed: too many to try all seeds, and few enough for exact numbers in every JSON reader."""


@accept_former_names(**PRESET_OPTIONS)
@dataclass(frozen=True)
class CanaryOptions:
    """The options of ``leakage canaries`` by their Python names; None if an option was omitted."""

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
    coin: bool | None = None
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
_FAMILY = {"family", "data", "role", "label", "unknown", "tokenizer", "model", "temperature", "profile", "coin"}
_OWN = {
    "--template": {"template", "words", "known", "source", "tags", "supporting_slots", "coin", *COUNTED},
    "--family": {*_FAMILY, *_SIZES},
    "--from-text": {"from_text", "detect", "context", "reveal"},
}
"""The options of each generation mode except presets."""
_CLASS = {"label", "label_column", "data"}
"""The options that give canaries a class."""


def with_profile(request: CanaryOptions) -> CanaryOptions:
    """Return the request with the numbers of its profile; ``routine`` if a template or family has no numbers."""
    by_hand = [name for name in _SIZES if getattr(request, name) is not None]
    if request.profile is not None and by_hand:
        raise OptionError(
            f"--profile {request.profile} sets the numbers of canaries, repetitions and controls: leave out --"
            f"{' and --'.join(by_hand)}, or the profile"
        )
    usual = request.template is not None or request.family is not None
    name = ROUTINE if usual and not by_hand and request.profile is None else request.profile
    if name is None:
        return request
    profile = profile_of(name)
    copies = ",".join(map(str, profile.repetitions))
    return replace(request, profile=name, count=profile.count, repetitions=copies, controls=profile.controls)


def check_options(request: CanaryOptions) -> None:
    """Raise OptionError unless exactly one generation mode is selected and accepts every given option."""
    accepted = _accepted(request)
    for option in fields(request):
        value = getattr(request, option.name)
        if value is not None and value is not False and option.name not in _COMMON | accepted:
            presets = {f"--preset {name}": {"preset", *PRESETS[name].takes} for name in PRESETS.without_plugins()}
            modes = {"--template": _OWN["--template"], **presets, **_OWN}
            owners = [name for name, takes in modes.items() if option.name in takes] or ["presets that have options"]
            by_hand = request.from_text is not None and option.name in _CLASS
            also = ', and write the class as "label" into each line of the manifest' if by_hand else ""
            raise OptionError(f"{on_command_line(option.name)} goes with {' or '.join(owners)}: leave it out{also}")


def _accepted(request: CanaryOptions) -> set[str]:
    """Return the options that the selected generation mode accepts. Raises OptionError unless one mode is selected."""
    names = PRESETS.names()
    known = f"{', '.join(names[:-1])} or {names[-1]}"
    if request.preset is not None and request.preset not in PRESETS:
        raise OptionError(f"--preset is {request.preset!r}: use {known}{near(request.preset, names)}")
    values = {mode: getattr(request, mode.removeprefix("--").replace("-", "_")) for mode in (*_OWN, "--preset")}
    selected = [mode for mode, value in values.items() if value is not None]
    if len(selected) != 1:
        raise OptionError(
            f"give one of --template, --preset ({known}), --family ({', '.join(FAMILIES)}) and --from-text, such as "
            "--template 'Pin of {unique}: {digits:6}.'"
        )
    if request.preset is None:
        return _OWN[selected[0]]
    preset = PRESETS[request.preset]
    return {"preset", *preset.takes, *(["settings"] if preset.options else [])}

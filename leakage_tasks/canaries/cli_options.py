"""What ``leakage canaries`` was asked for, as the canaries it means."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from leakage_tasks.canaries.alphabets import TOKENIZER_KINDS, Alphabet, tokenizer_words, word_file
from leakage_tasks.canaries.canary import FAMILIES, Canary, Family
from leakage_tasks.canaries.classes import BY_COUNT, RAREST, by_rows, choose_class, class_counts
from leakage_tasks.canaries.families import FamilyRequest, family_canaries
from leakage_tasks.canaries.generate import check_number, check_repetitions, make_canaries, nonce_of
from leakage_tasks.canaries.natural import corpus_passages, natural_canaries
from leakage_tasks.canaries.option_texts import items, numbers, supporting_of
from leakage_tasks.canaries.presets.registry import COUNTED, PRESETS, Preset, PresetRequest
from leakage_tasks.canaries.profiles import ROUTINE, profile_of
from leakage_tasks.canaries.spaces import slot_names
from leakage_tasks.core.errors import OptionError, on_command_line
from leakage_tasks.core.option import by_name, near, resolved
from leakage_tasks.data import Columns
from leakage_tasks.data.chat import role_of
from leakage_tasks.data.utterances import is_tag

SEED_BITS = 48
"""Of a seed that nobody chose: more than can be tried out, and a whole number for every reader of JSON."""
SALT_BYTES = 16


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
    doubled: bool | None = None
    only: str | None = None
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


def requested(request: CanaryOptions) -> list[Canary]:
    """The canaries asked for: of a template, of a preset or found in a text.

    Secrets come of ``seed``, else of the operating system's entropy; either way the canaries hold the seed, and ids and
    ``{unique}`` words a word that follows from it, so that two manifests share neither. Natural ones have a salt that
    no seed decides. Raises LeakageError, naming the option at fault.
    """
    _check(request)
    sized = replace(_with_profile(request), id_prefix=f"{request.id_prefix}{nonce_of(request.seed)}-")
    salt = None if request.from_text is None else secrets.token_hex(SALT_BYTES)
    return [replace(canary, seed=request.seed, profile=sized.profile, salt=salt) for canary in _make(sized)]


def _with_profile(request: CanaryOptions) -> CanaryOptions:
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


def _make(request: CanaryOptions) -> list[Canary]:
    shared = _options(request, "controls", "seed", "id_prefix")
    if request.from_text is not None:
        detect: dict[str, Any] = {} if request.detect is None else {"detect": items(request.detect)}
        return natural_canaries(
            corpus_passages(request.from_text, **_columns(request)), **detect, **_options(request, "context"), **shared
        )
    if request.family is not None:
        return _of_families(request)
    label, classes = _classes(request)
    shared["label"] = label
    if request.preset is None:
        return _of_template(request, classes, shared)
    if request.repetitions is not None:
        shared["repetitions"] = numbers("--repetitions", request.repetitions)
    values = {each.name: getattr(request, each.name) for each in fields(request)}
    given = {name: value for name, value in values.items() if value is not None and value is not False}
    preset = PRESETS[request.preset]
    own = resolved(preset.options, _settings(preset, request))
    return list(preset.make(PresetRequest(request.preset, given, shared, classes, own)))


def _settings(preset: Preset, request: CanaryOptions) -> dict[str, Any]:
    """The preset's own options as they were given by ``--set``."""
    known, found = by_name(preset.options), {}
    for text in request.settings or ():
        name, sign, value = text.partition("=")
        if not sign or name not in known:
            have = f"its options are {', '.join(known)}" if known else "it has no options of its own"
            raise OptionError(f"--set {text}: --preset {request.preset}: {have}{near(name, known)}: write NAME=VALUE")
        found[name] = known[name].parsed(value, "--set")
    return found


def _options(request: CanaryOptions, *names: str) -> dict[str, Any]:
    """The options of these names that were given; the others are as whoever makes the canaries has them."""
    values = {name: getattr(request, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _columns(request: CanaryOptions) -> dict[str, str]:
    return {name: value for name, value in _options(request, "text_column", "split").items() if value}


def _of_template(request: CanaryOptions, classes: list[str], shared: dict[str, Any]) -> list[Canary]:
    template = request.template or ""
    others = [name for name in classes if name != shared["label"]]
    wanted = supporting_of(request.supporting or "none")
    supporting = {"all": max(1, len(others)), "one": 1, "none": 0}[wanted] if isinstance(wanted, str) else wanted
    named = request.supporting_labels is not None
    tags = items(request.tags)
    canaries = make_canaries(
        template,
        1 if request.count is None else request.count,
        repetitions=numbers("--repetitions", request.repetitions or "1"),
        alphabets=_alphabets(template, request.words or [], request.tokenizer),
        tags=tags,
        supporting=supporting,
        supporting_labels=classes if named or supporting else None,
        nonce=nonce_of(request.seed),
        **_options(request, "known", "source", "supporting_slots"),
        **shared,
    )
    if tags is not None:
        _check_tags(tags, canaries)
    return canaries


def _of_families(request: CanaryOptions) -> list[Canary]:
    """Canaries of each family that is named, as many of one as of any other. Raises OptionError for an unknown one."""
    families: list[Family] = []
    for name in items(request.family) or []:
        if name not in FAMILIES:
            raise OptionError(f"--family {name!r}: use one or several of {', '.join(FAMILIES)}{near(name, FAMILIES)}")
        families += [each for each in FAMILIES if each == name and each not in families]
    if request.data is None or not families:
        raise OptionError("--family needs --data: name the training data, or text like it, to take sentences from")
    columns = Columns(**_columns(request), role=role_of(request.role, "--role"))
    repetitions = numbers("--repetitions", request.repetitions or "1")
    check_repetitions(repetitions, "1,10")
    count, controls = 1 if request.count is None else request.count, request.controls or 0
    for option, number in (("--count", count), ("--controls", controls)):
        check_number(option, number)
    if not count + controls:
        raise OptionError("--count and --controls are both 0: ask for one canary or more")
    own = _options(request, "unknown", "tokenizer", "model", "temperature", "label", "seed", "id_prefix")
    return family_canaries(families, FamilyRequest(request.data, columns, count, repetitions, controls, **own))


def _check_tags(tags: Sequence[str], canaries: Sequence[Canary]) -> None:
    """Raise OptionError for a tag outside the BIO scheme, and for a canary with other than one tag a word."""
    for tag in tags:
        if not is_tag(tag):
            raise OptionError(f"--tags: {tag!r} is outside the BIO scheme: use O, B-name and I-name")
    for canary in canaries:
        words = len(canary.text.split())
        if len(tags) != words:
            raise OptionError(f"--tags names {len(tags)} tags, {canary.id} has {words} words: give each word one")


def _check(request: CanaryOptions) -> None:
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
            f"give one of --template, --preset ({known}), --family ({', '.join(FAMILIES)}) and --from-text"
        )
    if request.preset is None:
        return asked[0], _OWN[asked[0]]
    preset = PRESETS[request.preset]
    return asked[0], {"preset", *preset.takes, *(["settings"] if preset.options else [])}


def _classes(request: CanaryOptions) -> tuple[str | None, list[str]]:
    """The canaries' label and the other classes there are, those of fewest rows first if rows can be counted."""
    label, named = request.label, items(request.supporting_labels)
    if request.data is None:
        for option in ("label_column", "text_column", "split"):
            if getattr(request, option) is not None:
                raise OptionError(f"{on_command_line(option)} goes with --data: name the file to count classes in")
        if label in BY_COUNT:
            raise OptionError(f"--label {label} needs --data and --label-column, to count classes in")
        return label, named or []
    if request.label_column is None:
        raise OptionError(f"--data {request.data} needs --label-column: name the column of the classes")
    counts = class_counts(request.data, request.label_column, **_columns(request))
    return choose_class(counts, label or RAREST), [choose_class(counts, name) for name in named or by_rows(counts)]


def _alphabets(template: str, words: list[str], tokenizer: str | None) -> dict[str, Alphabet]:
    used = slot_names(template)
    found = {}
    if tokenizer is not None:
        found = {name: tokenizer_words(name, tokenizer, what) for name, what in TOKENIZER_KINDS.items() if name in used}
    for item in words:
        name, equals, file = item.partition("=")
        if not (name and equals and file):
            raise OptionError(f"--words is {item!r}: write a name and a file, such as cities=cities.txt")
        found[name] = word_file(name, file)
    return found

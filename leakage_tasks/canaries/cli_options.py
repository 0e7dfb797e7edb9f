"""Conversion of the options of ``leakage canaries`` to canaries."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from leakage_tasks.canaries.alphabets import TOKENIZER_KINDS, Alphabet, tokenizer_words, word_file
from leakage_tasks.canaries.canary import FAMILIES, Canary, Family
from leakage_tasks.canaries.classes import BY_COUNT, RAREST, by_rows, choose_class, class_counts
from leakage_tasks.canaries.coins import flipped
from leakage_tasks.canaries.families import FamilyRequest, family_canaries
from leakage_tasks.canaries.generate import check_counts, make_canaries, nonce_of
from leakage_tasks.canaries.generation_modes import CanaryOptions, check_options, with_profile
from leakage_tasks.canaries.natural import corpus_passages, natural_canaries
from leakage_tasks.canaries.option_texts import items, numbers, supporting_number, supporting_of
from leakage_tasks.canaries.presets.registry import PRESETS, Preset, PresetRequest
from leakage_tasks.canaries.profiles import PROFILES, ROUTINE, has_headline
from leakage_tasks.canaries.sizes import least_count, small_groups
from leakage_tasks.canaries.spaces import slot_names
from leakage_tasks.core.errors import OptionError, on_command_line
from leakage_tasks.core.former_names import PRESET_OPTIONS
from leakage_tasks.core.option import by_name, near, resolved
from leakage_tasks.data import Columns
from leakage_tasks.data.chat import role_of
from leakage_tasks.data.shards import check_splits
from leakage_tasks.data.utterances import is_tag

SALT_BYTES = 16


def requested(request: CanaryOptions) -> list[Canary]:
    """Make the requested canaries from a template, a preset, families or the secrets in a text.

    Secrets follow from ``seed``, which the operating system draws unless it is given. Each canary stores the seed; ids
    and ``{unique}`` words contain a word derived from it, so that two manifests share no ids or words. Natural canaries
    have a salt that does not depend on the seed. Warns about groups too small for an interval, and about missing
    controls. Raises LeakageError, which names the option at fault.
    """
    check_options(request)
    sized = replace(with_profile(request), id_prefix=f"{request.id_prefix}{nonce_of(request.seed)}-")
    salt = None if request.from_text is None else secrets.token_hex(SALT_BYTES)
    made = [replace(canary, seed=request.seed, profile=sized.profile, salt=salt) for canary in _make(sized)]
    if request.coin:
        made = flipped(made, request.seed)
    # Presets use the numbers of the papers.
    if sized.preset is None and has_headline(sized.profile) and (remark := small_groups(made)):
        warnings.warn(f"{remark}: {_size_advice(sized)}", stacklevel=2)
    if sized.preset is None and sized.from_text is None and all(canary.planted for canary in made):
        advice = f"use --controls {PROFILES[ROUTINE].controls}, or --profile {ROUTINE}"
        warnings.warn(f"no controls, so results have no verdict: {advice}", stacklevel=2)
    return made


def _size_advice(request: CanaryOptions) -> str:
    """Return advice on the options that make the groups large enough for intervals."""
    repetitions = numbers("--repetitions", request.repetitions or "1")
    families = len(set(items(request.family) or ["of the template"]))
    count = least_count(repetitions, families)
    if request.coin:  # Half of the canaries become controls, and by chance a few more.
        return f"use --count {3 * count} or more"
    return f"use --count {count} or more, or --profile {ROUTINE}"


def _make(request: CanaryOptions) -> list[Canary]:
    shared = _options(request, "controls", "seed", "id_prefix")
    if request.from_text is not None:
        columns = _columns(request)
        detect: dict[str, Any] = {} if request.detect is None else {"detect": items(request.detect)}
        passages = corpus_passages(request.from_text, text_column=columns.text, split=columns.split)
        return natural_canaries(passages, **detect, **_options(request, "context"), **shared)
    if request.family is not None:
        return _make_families(request)
    label, classes = _classes(request)
    shared["label"] = label
    if request.preset is None:
        return _make_from_template(request, classes, shared)
    if request.repetitions is not None:
        shared["repetitions"] = numbers("--repetitions", request.repetitions)
    values = {field.name: getattr(request, field.name) for field in fields(request)}
    given = {name: value for name, value in values.items() if value is not None and value is not False}
    given |= {former: given[current] for former, current in PRESET_OPTIONS.items() if current in given}
    preset = PRESETS[request.preset]
    preset_values = resolved(preset.options, _settings(preset, request))
    return list(preset.make(PresetRequest(request.preset, given, shared, classes, preset_values)))


def _settings(preset: Preset, request: CanaryOptions) -> dict[str, Any]:
    known, values = by_name(preset.options), {}
    for text in request.settings or ():
        name, sign, value = text.partition("=")
        if not sign or name not in known:
            have = f"its options are {', '.join(known)}" if known else "it has no options of its own"
            raise OptionError(f"--set {text}: --preset {request.preset}: {have}{near(name, known)}: write NAME=VALUE")
        values[name] = known[name].parsed(value, "--set")
    return values


def _options(request: CanaryOptions, *names: str) -> dict[str, Any]:
    """Return those of the named options that were given; the called function has defaults for the others."""
    values = {name: getattr(request, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _columns(request: CanaryOptions) -> Columns:
    role = role_of(request.role, "--role")
    source = request.data or request.from_text
    if source is not None and request.split is not None:
        check_splits(source, request.split)
    return Columns(request.text_column or Columns.text, split=request.split or Columns.split, role=role)


def _make_from_template(request: CanaryOptions, classes: list[str], shared: dict[str, Any]) -> list[Canary]:
    template = request.template or ""
    others = [name for name in classes if name != shared["label"]]
    supporting = supporting_number(supporting_of(request.supporting or "none"), len(others)) or 0
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


def _make_families(request: CanaryOptions) -> list[Canary]:
    """Make an equal number of canaries for each requested family. Raises OptionError for an unknown family."""
    families: list[Family] = []
    for name in items(request.family) or []:
        if name not in FAMILIES:
            raise OptionError(f"--family {name!r}: use one or several of {', '.join(FAMILIES)}{near(name, FAMILIES)}")
        families += [family for family in FAMILIES if family == name and family not in families]
    if request.data is None or not families:
        raise OptionError("--family needs --data: name the training data, or text like it, to take sentences from")
    columns = _columns(request)
    repetitions = numbers("--repetitions", request.repetitions or "1")
    count, controls = 1 if request.count is None else request.count, request.controls or 0
    check_counts(count, controls, 0, repetitions)
    options = _options(request, "unknown", "tokenizer", "model", "temperature", "label", "seed", "id_prefix")
    return family_canaries(families, FamilyRequest(request.data, columns, count, repetitions, controls, **options))


def _check_tags(tags: Sequence[str], canaries: Sequence[Canary]) -> None:
    """Raise OptionError for a tag outside the BIO scheme, or if a canary has more or fewer words than tags."""
    for tag in tags:
        if not is_tag(tag):
            raise OptionError(f"--tags: {tag!r} is outside the BIO scheme: use O, B-name and I-name")
    for canary in canaries:
        words = len(canary.text.split())
        if len(tags) != words:
            raise OptionError(f"--tags names {len(tags)} tags, {canary.id} has {words} words: give each word one")


def _classes(request: CanaryOptions) -> tuple[str | None, list[str]]:
    """Return the canaries' label, and all other classes, in ascending order of rows if the rows can be counted."""
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
    columns = _columns(request)
    counts = class_counts(request.data, request.label_column, columns.split, text_column=columns.text)
    return choose_class(counts, label or RAREST), [choose_class(counts, name) for name in named or by_rows(counts)]


def _alphabets(template: str, words: list[str], tokenizer: str | None) -> dict[str, Alphabet]:
    used = slot_names(template)
    alphabets = {}
    if tokenizer is not None:
        alphabets = {
            name: tokenizer_words(name, tokenizer, what) for name, what in TOKENIZER_KINDS.items() if name in used
        }
    for item in words:
        name, equals, file = item.partition("=")
        if not (name and equals and file):
            raise OptionError(f"--words is {item!r}: write a name and a file, such as cities=cities.txt")
        alphabets[name] = word_file(name, file)
    return alphabets

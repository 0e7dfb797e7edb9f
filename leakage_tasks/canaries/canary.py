"""The canary: a secret in its template, with its label, repetitions and the attacker's knowledge."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, get_args

from leakage_tasks.canaries.alphabets import Alphabet, alphabet_from_json
from leakage_tasks.canaries.spaces import Filling, Space, literal, parse_template, slot_names
from leakage_tasks.core.errors import ManifestError, SpaceError, TargetError
from leakage_tasks.core.option import near
from leakage_tasks.core.records import MissingField, UnknownField, WrongField, read_record

SCHEMA = 1
Kind = Literal["random", "organic", "supporting", "near", "natural"]
AUXILIARY_KINDS: tuple[Kind, ...] = ("supporting", "near")
"""Kinds of canaries that are planted to support another canary, in other classes or with other words. They are not
attacked."""
Family = Literal["typical", "high-perplexity", "new-token", "bigram", "high-temperature"]
FAMILIES: tuple[Family, ...] = get_args(Family)
"""The families that canaries can resemble, from the most expected text to the worst case; see docs/families.md."""
Known = Literal["all", "before", "after", "none"]
"""The part of the template that the attacker knows; a run can use it instead of the manifest's value (The Secret
Sharer, Table 3)."""
MASK = "•"


@dataclass(frozen=True)
class Canary:
    """A canary, stored as one line of a manifest."""

    id: str
    """The identifier, unique in the manifest."""
    template: str
    """The text around the secret, with slots."""
    secret: Filling
    """The values of the slots."""
    repetitions: int = 1
    """The number of copies to plant."""
    planted: bool = True
    """False for a control, which is never planted."""
    kind: Kind = "random"
    """The origin of the secret, or the role of a canary that supports another canary."""
    alphabets: Mapping[str, Alphabet] = field(default_factory=dict, hash=False)
    """Alphabets that the template uses in addition to the built-in ones, by name."""
    known: str | None = None
    """The part of the template that the attacker knows (default: all of it), a template with equal slots."""
    label: str | None = None
    """The class of a classification canary."""
    tags: tuple[str, ...] | None = None
    """A slot tag for each word."""
    source: str | None = None
    """The source sentence of a translation canary, whose text is the target sentence. It is a fixed sentence, or a
    template with the canary's slots in their order."""
    supports: str | None = None
    """The id of the canary that a supporting or near canary belongs to."""
    seed: int | None = None
    """The seed of the manifest, if ``leakage canaries`` created it."""
    profile: str | None = None
    """The profile of the manifest, if ``leakage canaries`` created it."""
    salt: str | None = None
    """Random text in the manifest's hash, so that the hash confirms no guess at a natural secret."""
    family: Family | None = None
    """The family that the canary was made to resemble, if the user requested one; results are grouped by family."""
    coin: bool = False
    """True if a fair coin decided whether the canary is planted (:mod:`leakage_tasks.canaries.coins`)."""
    uniform: bool | None = None
    """True if the format of a natural secret makes it uniform over its space, False if only its controls resemble it;
    None if this is unknown or the secret is not natural."""

    def __post_init__(self) -> None:
        if not self.id or not self.id.isprintable():
            raise SpaceError(f"id {self.id!r} must be a name of one or more printable characters", subject="id")
        if self.kind not in get_args(Kind):
            raise SpaceError(f"kind {self.kind!r} is unknown: use {', '.join(get_args(Kind))}", subject="kind")
        if self.family not in (None, *FAMILIES):
            fault = f"is unknown: use {', '.join(FAMILIES)}"
            raise SpaceError(f"family {self.family!r} {fault}", reason=fault, subject="family")
        if (self.kind in AUXILIARY_KINDS) != (self.supports is not None):
            message = f"supports is {self.supports!r} for kind {self.kind!r}: only supporting and near canaries need it"
            raise SpaceError(message, reason="belongs to supporting and near canaries only", subject="supports")
        if self.uniform is not None and self.kind != "natural":
            fault = "belongs to natural canaries only"
            raise SpaceError(f"uniform is {self.uniform}: it {fault}", reason=fault, subject="uniform")
        if self.repetitions < 0 or (self.planted and self.repetitions == 0):
            message = f"repetitions is {self.repetitions}: a planted canary needs 1 or more"
            raise SpaceError(message, reason=message, subject="repetitions")
        if not self.planted and self.repetitions:
            message = f"repetitions is {self.repetitions} for a control, which is never planted: give 0"
            raise SpaceError(message, reason=message, subject="repetitions")
        self.space.check(self.secret)
        _check_known(self)
        _check_source(self)

    def __repr__(self) -> str:
        """Return all fields, or for a natural canary only those that reveal nothing about its secret in logs."""
        names = ("id", "repetitions", "planted", "kind") if self.kind == "natural" else (f.name for f in fields(self))
        return f"Canary({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    @cached_property
    def space(self) -> Space:
        """The randomness space of the whole template."""
        return parse_template(self.template, self.alphabets)

    @cached_property
    def attack_space(self) -> Space:
        """The canary's slots within the part of the template that the attacker knows."""
        return self.space if self.known is None else parse_template(self.known, self.alphabets, field="known")

    @cached_property
    def source_space(self) -> Space | None:
        """The source sentence as a template with the canary's slots or without slots; None without a source."""
        if self.source is None:
            return None
        return parse_template(self.source, self.alphabets, slots_needed=False, field="source")

    def source_of(self, filling: Filling) -> str | None:
        """Return the source sentence that is paired with the text of ``filling``; None without a source."""
        space = self.source_space
        return None if space is None else space.fill(filling if space.slots else ())

    @property
    def source_text(self) -> str | None:
        """The source sentence as it is planted; None without a source."""
        return self.source_of(self.secret)

    @cached_property
    def text(self) -> str:
        """The filled template, as it is planted."""
        return self.space.fill(self.secret)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of a manifest line, without the fields that do not apply."""
        space = {name: _space_json(name, self.alphabets.get(name)) for name in slot_names(self.template)}
        values = {**vars(self), "schema": SCHEMA, "space": space, "coin": self.coin or None}
        content = {spec.name: values[spec.name] for spec in fields(_Line) if values[spec.name] is not None}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in content.items()}


def _space_json(name: str, alphabet: Alphabet | None) -> dict[str, Any]:
    if alphabet is None:
        return {}
    return (alphabet if alphabet.name == name else replace(alphabet, name=name)).to_json()


def _check_known(canary: Canary) -> None:
    if canary.known is None:
        return
    whole, part = canary.space, canary.attack_space
    inner = part.slots == whole.slots and part.pieces[1:-1] == whole.pieces[1:-1]
    ends = whole.pieces[0].endswith(part.pieces[0]) and whole.pieces[-1].startswith(part.pieces[-1])
    if not (inner and ends):
        message = f"known {canary.known!r} is not a part of template {canary.template!r} with all of its slots"
        raise SpaceError(message, reason="is not a part of field 'template' with all of its slots", subject="known")


def _check_source(canary: Canary) -> None:
    space = canary.source_space
    if space is None:
        return
    if not canary.source or canary.source != canary.source.strip():
        fault = "is empty or begins or ends with white space: give a bare sentence"
        raise SpaceError(f"source {canary.source!r} {fault}", reason=fault, subject="source")
    if space.slots not in ((), canary.space.slots):
        raise SpaceError(
            f"source {canary.source!r} has other slots than template {canary.template!r}: use the template's slots "
            "in their order, or no slots",
            reason="has other slots than field 'template': use the template's slots in their order, or no slots",
            subject="source",
        )


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A line of a manifest, with its fields in the order in which they are written."""

    schema: int
    id: str
    template: str
    secret: tuple[str, ...]
    space: dict[str, Any]
    repetitions: int
    planted: bool
    # The kind may not be one of ``Kind``; a canary checks it.
    kind: str
    known: str | None = None
    label: str | None = None
    tags: tuple[str, ...] | None = None
    source: str | None = None
    supports: str | None = None
    seed: int | None = None
    profile: str | None = None
    salt: str | None = None
    family: str | None = None
    coin: bool | None = None
    uniform: bool | None = None


def canary_from_json(data: Any, where: str = "canary") -> Canary:
    """Read a canary from the object that :meth:`Canary.to_json` returns.

    Raises ManifestError, with a message that starts with ``where``, for a missing, unknown or ill-typed field, a schema
    of another version, or a secret outside its space.
    """
    try:
        line = read_record(_Line, data)
    except MissingField as error:
        raise ManifestError(f"{where}: field {error.name!r} is missing: add it, or make the manifest again") from None
    except UnknownField as error:
        raise ManifestError(f"{where}: unknown field {error.name!r}: remove it, or update lm-eval-leakage") from None
    except WrongField as error:
        field_name = f"field {error.name!r}: " if error.name else ""
        raise ManifestError(f"{where}: {field_name}{error.what}: correct it") from None
    if line.schema != SCHEMA:
        raise ManifestError(
            f"{where}: field 'schema' is {line.schema}, this version reads {SCHEMA}: use the version that wrote it, or "
            "make the manifest again"
        )
    return _build(line, where)


def _build(line: _Line, where: str) -> Canary:
    data = {name: value for name, value in vars(line).items() if value is not None}
    if (name := next((name for name, value in data.items() if not _is_unicode(value)), None)) is not None:
        raise ManifestError(
            f"{where}: field {name!r} contains a lone surrogate character, which UTF-8 cannot encode: remove it"
        )
    kinds = get_args(Kind)
    if line.kind not in kinds:
        # The kind must be known first: it decides if messages may show the secret. They do not show the invalid kind
        # either, because it may be a secret that slipped in from another field.
        raise ManifestError(f"{where}: field 'kind' is not one of {', '.join(kinds)}{near(line.kind, kinds)}")
    field_name = "space"
    try:
        alphabets = {name: alphabet_from_json(name, spec) for name, spec in line.space.items() if spec != {}}
        field_name = "template"
        parse_template(line.template, alphabets)
        field_name = "secret"
        values = {name: value for name, value in data.items() if name not in ("schema", "space")}
        return Canary(**values, alphabets=alphabets)
    except SpaceError as error:
        blamed = error.subject or field_name
        # A natural canary holds personal data, which the message must not show.
        hidden = f"{error.reason or 'does not fit the other fields'} (text not shown: natural)"
        why = hidden if line.kind == "natural" else error
        raise ManifestError(f"{where}: field {blamed!r}: {why}") from None


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def attacked(canaries: Iterable[Canary]) -> list[Canary]:
    """Return the canaries that an audit attacks: all but the canaries that support another one."""
    return [canary for canary in canaries if canary.kind not in AUXILIARY_KINDS]


def attacker_view(canary: Canary, known: Known) -> Canary:
    """Return ``canary`` as seen by an attacker who knows only a part of its template.

    With ``known`` ``"none"`` the attacker knows the slots and the text between them; ``"before"`` adds the text before
    the first slot, ``"after"`` the text after the last slot, and ``"all"`` both. The source sentence of a translation
    canary stays known. If the part is the whole template, the result equals ``all``.
    """
    first, *_, last = canary.space.pieces
    template = canary.template
    start = len(literal(first)) if known in ("none", "after") else 0
    end = len(template) - (len(literal(last)) if known in ("none", "before") else 0)
    part = template[start:end]
    return replace(canary, known=None if part == template else part)


def source_space_of(canary: Canary) -> Space:
    """Return the space of the source sentence, which translation models read first. Raises TargetError without one."""
    space = canary.source_space
    if space is None:
        raise TargetError(
            f"canary {canary.id!r} has no source sentence, which this model must read first: make canaries with "
            "'leakage canaries --source …' and plant them with --source-column"
        )
    return space

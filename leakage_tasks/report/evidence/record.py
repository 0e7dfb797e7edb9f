"""The record of an evidence report: everything that the page shows, as JSON with a digest.

The page is a function of the record, so a change of a shown figure changes the record, its digest, or both.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from leakage_tasks.core.records import read_record
from leakage_tasks.metrics.audit_figure import AuditFigure
from leakage_tasks.report.check import LimitOutcome

SCHEMA = 1
_OF_HTML = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"}
"""Characters of markup as JSON escapes, so that the record can be a part of a page."""


@dataclass(frozen=True)
class Fact:
    """A named statement."""

    name: str
    value: str


@dataclass(frozen=True)
class Facts:
    """Statements on one subject: the model, a task, or a results file."""

    title: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class Summary:
    """One task of the run: its verdict, a sentence with the primary value, and the classes of its attacks.

    ``caution`` is the reason why no value represents the model, or an empty text.
    """

    task: str
    verdict: str
    because: str
    sentence: str
    caution: str
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One value of the results with its context; other reports show ``primary`` values by default."""

    task: str
    metric: str
    column: str
    title: str
    description: str
    unit: str
    direction: Literal["lower", "higher", ""]
    value: float
    low: float | None
    high: float | None
    interval: str
    count: int | None
    counted: str
    control: float | None
    chance: str
    primary: bool
    leakage: bool


@dataclass(frozen=True)
class Drawing:
    """A figure: its caption, its description in words, and the picture as a data address."""

    caption: str
    words: str
    picture: str


@dataclass(frozen=True)
class Check:
    """A check of validity that a task declares: ``held`` is None if the run has no value for it."""

    task: str
    name: str
    words: str
    metric: str
    value: float | None
    below: float
    held: bool | None


@dataclass(frozen=True)
class Tested:
    """One check of ``leakage selftest``."""

    check: str
    verdict: str
    words: str


@dataclass(frozen=True)
class Omission:
    """A task or an attack without results in this run, with the reason and the command that would run it."""

    kind: str
    name: str
    reason: str
    command: str


@dataclass(frozen=True)
class Hash:
    """A SHA-256, or another recorded identity: its subject, and the source of the value in words."""

    kind: str
    name: str
    digest: str
    source: str


@dataclass(frozen=True)
class AnnexQuestion:
    """A question of a document, with the figures of the run that bear on it, or the command that would measure it."""

    topic: str
    question: str
    figures: tuple[str, ...]
    command: str


@dataclass(frozen=True)
class Annex:
    """The questions of one document."""

    title: str
    document: str
    statement: str
    questions: tuple[AnnexQuestion, ...]


@dataclass(frozen=True)
class Settings:
    """The options of the report that determine its content."""

    name: str
    release: str
    delta: float
    limits: tuple[str, ...]
    allow: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """The code that wrote the report: its version, a SHA-256 of its source files, and the library of its pictures.

    ``extensions`` are other packages with attacks and scorings.
    """

    version: str
    sources: str
    drawing: str
    extensions: tuple[str, ...]


@dataclass(frozen=True)
class Evidence:
    """All content of a report. ``date`` is the day of the newest results, so that equal inputs give equal reports."""

    schema: int
    date: str
    settings: Settings
    summary: tuple[Summary, ...]
    protocol: tuple[Facts, ...]
    results: tuple[Row, ...]
    audit: tuple[AuditFigure, ...]
    figures: tuple[Drawing, ...]
    checks: tuple[Check, ...]
    outcomes: tuple[LimitOutcome, ...]
    selftest: tuple[Tested, ...]
    meanings: tuple[Fact, ...]
    limits: tuple[str, ...]
    omissions: tuple[Omission, ...]
    hashes: tuple[Hash, ...]
    annexes: tuple[Annex, ...]
    code: Code


def canonical(evidence: Evidence) -> str:
    """Return the record as JSON with sorted names, in ASCII and without spaces; equal records give equal texts."""
    data = dataclasses.asdict(evidence)
    text = json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.translate(_OF_HTML)


def digest_of(record: str) -> str:
    """Return the SHA-256 of a record's text."""
    return hashlib.sha256(record.encode()).hexdigest()


def evidence_from_json(data: Any) -> Evidence:
    """Read a record. Raises WrongField for a missing, unknown or wrong field."""
    return read_record(Evidence, data)

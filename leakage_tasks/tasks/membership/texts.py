"""The texts of a run: members, non-members and suspected texts, with clusters and the part of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from leakage_tasks.canaries import read_manifest
from leakage_tasks.canaries.canary import attacked
from leakage_tasks.core.errors import OptionError, PlantingError, in_metadata
from leakage_tasks.core.stable_inputs import FileStates
from leakage_tasks.pairs.document_texts import TextDocument, read_documents
from leakage_tasks.pairs.documents import sample_items
from leakage_tasks.pairs.pair import ALL
from leakage_tasks.pairs.rendering import Rendering, spoken_in
from leakage_tasks.pairs.source import state_of
from leakage_tasks.tasks.membership.overlap import check_overlap

FEWEST = 2
"""Minimum number of clusters of each class: one for the choice of an attack and of thresholds, one for the figures."""


Key = tuple[int, bool]
"""Number of a text, and True for a suspected text."""


@dataclass(frozen=True)
class TestedText:
    """A text of the run.

    ``number`` is its number in its data, −1 − number for a non-member. Texts of one ``cluster`` depend on each other. A
    text that ``chooses`` belongs to the part on which the attack and the thresholds are chosen. If the membership of a
    text is unknown, it is ``suspected`` and no ``member``. Of a rendered conversation, ``content`` holds the turns
    without the template, ``compared`` its part that no text of the other class may contain, and ``spoken`` the spans of
    the turns in the text.
    """

    number: int
    member: bool
    text: str
    cluster: int = 0
    chooses: bool = False
    suspected: bool = False
    content: str | None = None
    compared: str | None = None
    spoken: tuple[tuple[int, int], ...] | None = None

    @property
    def key(self) -> Key:
        """The key of the text, which is unique in the run."""
        return self.number, self.suspected


@dataclass(frozen=True)
class TextSource:
    """The data of both classes, and the options that choose texts."""

    members: str | None = None
    nonmembers: str | None = None
    canaries: str | None = None
    suspected: str | None = None
    documents: int = 1000
    cluster: str | None = None
    text_column: str = "text"
    split: str = ALL
    seed: int = 0
    context_texts: int = 0
    """Number of non-members that are read as a context and not tested."""
    rendering: Rendering | None = None
    """The chat template that renders the rows, which are then conversations; None to join their turns."""


@dataclass(frozen=True)
class TestedTexts:
    """The texts of a run, and the non-members of the context.

    ``available`` are the numbers of members, non-members and, if given, suspected texts in the data, and ``clusters``
    is the number of clusters.
    """

    texts: tuple[TestedText, ...]
    context: tuple[str, ...]
    available: tuple[int, ...]
    digest: str
    """SHA-256 of the texts without a chat template, of classes, clusters and parts, and of the context."""

    @property
    def clusters(self) -> int:
        """Number of clusters."""
        return len({text.cluster for text in self.texts})


def read_tested(source: TextSource) -> TestedTexts:
    """Return the texts of a run: members and non-members alternately, then suspected texts.

    Repeated calls return the cached texts.

    Raises:
        OptionError: The data cannot be read, a class has too few texts, or members and non-members overlap.
        ManifestError: The manifest cannot be read.
    """
    paths = (source.members, source.nonmembers, source.canaries, source.suspected)
    return _read(source, tuple(state_of(Path(path)) for path in paths if path is not None))


@lru_cache(maxsize=4)
def _read(source: TextSource, state: tuple[FileStates, ...]) -> TestedTexts:
    if source.canaries is not None:
        classes, keys, available = _of_canaries(source.canaries)
    else:
        classes, keys, available = _of_data(source)
    suspected = classes.pop() if source.suspected is not None else []
    context, classes[1] = _context(source, classes[1])
    names = (source.canaries, f"controls of {source.canaries}") if source.canaries else (
        f"members={source.members}", f"nonmembers={source.nonmembers}")  # fmt: skip
    for name, texts in zip(names, classes, strict=True):
        clusters = len({keys[text.key] for text in texts})
        if clusters < FEWEST:
            groups = f"cluster={source.cluster}: " if source.cluster else ""
            hint = (
                "" if source.cluster or source.canaries else "; each row of a data set, and each .txt file, is one text"
            )
            raise OptionError(
                f"{groups}{name}: {clusters} of at least {FEWEST} {'clusters' if source.cluster else 'texts'}: give "
                f"one to choose the attack on and one to report{hint}"
            )
    seen, unseen = map(_compared, classes)
    check_overlap(seen, unseen, names, grams=source.canaries is None)
    if suspected:
        check_overlap(_compared(suspected), unseen, (f"suspected={source.suspected}", names[1]), grams=True)
    both = [text for pair in zip_longest(*classes) for text in pair if text is not None] + suspected
    tested = _in_parts(_in_clusters(both, keys), source.seed)
    return TestedTexts(tested, tuple(text.text for text in context), available, _digest(tested, context))


def _of_canaries(path: str) -> tuple[list[list[TestedText]], dict[Key, Any], tuple[int, ...]]:
    """Return planted canaries and controls; raises OptionError for natural secrets."""
    canaries = attacked(read_manifest(path))
    if any(canary.kind == "natural" for canary in canaries):
        raise OptionError(
            f"canaries={path}: holds natural secrets, and their scores would confirm guesses at them: use "
            "canary_exposure, or a manifest of made canaries"
        )

    members = [TestedText(index, True, canary.text) for index, canary in enumerate(canaries) if canary.planted]
    others = [TestedText(-1 - index, False, canary.text) for index, canary in enumerate(canaries) if not canary.planted]
    classes = [members, others]
    keys = {text.key: text.number for text in chain(*classes)}
    return classes, keys, (len(members), len(others))


def _of_data(source: TextSource) -> tuple[list[list[TestedText]], dict[Key, Any], tuple[int, ...]]:
    """Return sampled texts of each class, the value of the cluster field by key, and the numbers available."""
    classes: list[list[TestedText]] = []
    keys: dict[Key, Any] = {}
    available: list[int] = []
    for data, member in ((source.members, True), (source.nonmembers, False), (source.suspected, None)):
        if data is None:
            continue
        try:
            chats = source.rendering is not None
            rows = _filled(read_documents(Path(data), source.text_column, source.split, source.cluster, chats))
            wanted = source.documents + (source.context_texts if member is False else 0)
            sampled, number = sample_items(rows, wanted, source.seed)
        except PlantingError as error:
            raise error.spelled(in_metadata, OptionError) from None
        texts = [_tested(document, row, member, source.rendering) for row, document in sampled]
        for text, (row, document) in zip(texts, sampled, strict=True):
            alone = text.key if text.suspected else text.number
            keys[text.key] = alone if source.cluster is None else _cluster_key(document.value, data, row, source)
        classes.append(texts)
        available.append(number)
    return classes, keys, tuple(available)


def _filled(documents: Iterator[TextDocument]) -> Iterator[TextDocument]:
    return (document for document in documents if document.plain.strip())


def _tested(document: TextDocument, row: int, member: bool | None, rendering: Rendering | None) -> TestedText:
    number = -1 - row if member is False else row
    text = TestedText(number, bool(member), document.text(rendering), suspected=member is None)
    if document.row is None:
        return text
    spoken = spoken_in(text.text, document.row)
    return replace(text, content=document.content, compared=document.compared, spoken=spoken)


def _compared(texts: Sequence[TestedText]) -> list[tuple[int, str]]:
    """Return the numbers and the compared parts of texts that have one."""
    parts = ((text, text.text if text.compared is None else text.compared) for text in texts)
    return [(abs(text.number) - (text.number < 0), part) for text, part in parts if part.strip()]


def _content(text: TestedText) -> str:
    return text.text if text.content is None else text.content


def _cluster_key(value: Any, data: str, row: int, source: TextSource) -> str:
    if not isinstance(value, str | int) or value == "":
        raise OptionError(
            f"{data}: text {row} (from 0) has no {source.cluster!r}: give each text a word or a whole number as its "
            "cluster, or leave cluster= out"
        )
    return f"{type(value).__name__}:{value}"


def _context(source: TextSource, nonmembers: list[TestedText]) -> tuple[list[TestedText], list[TestedText]]:
    """Return the texts of the context of ``recall``, drawn by the seed, and the other non-members."""
    if not source.context_texts:
        return [], nonmembers
    if len(nonmembers) < source.context_texts + FEWEST:
        raise OptionError(
            f"shots={source.context_texts}: the context of recall takes that many of {len(nonmembers)} non-members: "
            "lower shots, or give more"
        )
    generator = np.random.default_rng([source.seed, 1])
    taken = set(generator.choice(len(nonmembers), source.context_texts, replace=False).tolist())
    kept = [text for index, text in enumerate(nonmembers) if index not in taken]
    return [nonmembers[index] for index in sorted(taken)], kept


def _in_clusters(texts: Sequence[TestedText], keys: dict[Key, Any]) -> list[TestedText]:
    """Return the texts with the numbers of their clusters, from 0 in the order of the texts."""
    numbers: dict[Any, int] = {}
    return [replace(text, cluster=numbers.setdefault(keys[text.key], len(numbers))) for text in texts]


def _in_parts(texts: Sequence[TestedText], seed: int) -> tuple[TestedText, ...]:
    """Return the texts with their parts: half of the clusters of each kind chooses, drawn by the seed.

    Kinds of clusters are: of members, of non-members, and of both. The half is rounded down. If a class has one cluster
    of its own and one of both, its own chooses, so that it has texts in both parts. Suspected texts do not choose.
    """
    held: dict[int, set[bool]] = {}
    for text in (text for text in texts if not text.suspected):
        held.setdefault(text.cluster, set()).add(text.member)
    choosing: set[int] = set()
    generator = np.random.default_rng([seed, 2])
    for kind in ({True}, {False}, {True, False}):
        clusters = [cluster for cluster, classes in held.items() if classes == kind]
        order = generator.permutation(len(clusters)).tolist()
        choosing.update(clusters[index] for index in order[: len(clusters) // 2])
    for member in (True, False):
        if not any(member in held[cluster] for cluster in choosing):
            choosing.update(cluster for cluster, classes in held.items() if classes == {member})
    return tuple(replace(text, chooses=text.cluster in choosing and not text.suspected) for text in texts)


def _digest(texts: Sequence[TestedText], context: Sequence[TestedText]) -> str:
    rows = [
        [
            *(text.number, text.member, text.cluster, text.chooses),
            _content(text),
            *(["suspected"] if text.suspected else []),
        ]
        for text in texts
    ]
    return hashlib.sha256(json.dumps([rows, [_content(text) for text in context]]).encode()).hexdigest()

"""What the two layouts of NLU data share: their columns, and what a canary's row looks like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data.base import TEXT, Columns, Layout, Plantable, Row, Turns, note_label
from leakage_tasks.data.utterances import Utterance, is_tag, utterances

LABEL = "label"
TAGS = "tags"


@dataclass
class TaggedLayout(Layout):
    """Rows of words, tags and intent; a canary's intent and tags may be new to the data."""

    new_labels: ClassVar[bool] = True

    def row(self, canary: Plantable) -> Row:
        """The canary as a row. Raises PlantingError where it has no intent, or no tag for each word."""
        utterance = utterance_of(canary)
        return {TEXT: utterance.text, TAGS: " ".join(utterance.tags), LABEL: utterance.intent}


class TaggedFormat:
    """NLU data: its columns are ``text`` (words with single spaces), ``label`` (the intent) and ``tags``."""

    running = False

    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Parse every utterance. Raises PlantingError naming file and line, or for another column."""
        _check_columns(source, wanted)
        layout = TaggedLayout(0, (TEXT, LABEL, TAGS), TEXT, LABEL)
        for utterance in utterances(source):
            note_label(layout.labels, utterance.intent)
            layout.rows += 1
        return layout

    def texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[Turns]:
        """The text of every utterance."""
        for utterance in utterances(path):
            yield (utterance.text,)


def utterance_of(canary: Plantable) -> Utterance:
    """The canary as an utterance. Raises PlantingError, without its text, where it has not all that one needs."""
    words, tags, intent = canary.text.split(), canary.tags, canary.label
    if not words or " ".join(words) != canary.text:
        raise PlantingError(f"{canary.id}: NLU data keeps words with single spaces between: write the template so")
    if intent is None:
        raise PlantingError(
            f"{canary.id} has no label, the intent that each row of NLU data has: name one with --label"
        )
    if not intent or intent != intent.strip() or {"\n", "\r"} & set(intent):
        raise PlantingError(f"{canary.id}: label {intent!r} is no name that a line can hold: name another intent")
    if tags is None:
        raise PlantingError(
            f"{canary.id} has no tags, of which each row of NLU data has one a word: make canaries with --tags O,B-x,… "
            "or with --preset nlu-pin"
        )
    if len(tags) != len(words):
        raise PlantingError(f"{canary.id} has {len(tags)} tags for {len(words)} words: give each word one with --tags")
    for tag in tags:
        if not is_tag(tag) or len(tag.split()) > 1:
            raise PlantingError(f"{canary.id}: tag {tag!r} is outside the BIO scheme: use O, B-name and I-name")
    return Utterance(tuple(words), tags, intent)


def _check_columns(source: Path, wanted: Columns) -> None:
    asked = (("text_column", wanted.text, TEXT), ("label_column", wanted.label, LABEL))
    for option, name, own in (*asked, ("source_column", wanted.source, None)):
        if name not in (None, own):
            problem = f"no column {name!r} (NLU data has {TEXT!r} and {LABEL!r} alone)"
            raise PlantingError(subject=str(source), problem=problem, remedy="leave out {}", option=option)

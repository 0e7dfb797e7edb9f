"""The two formats of NLU data: ``.conll`` files, and folders of ``seq.in``, ``seq.out`` and ``label``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data.base import Format, register_format
from leakage_tasks.data.layout import TEXT, Columns, Layout, Places, Plantable, Points, Row, note_label
from leakage_tasks.data.lines import LineFormat, Pieces, TextFormat, check_rows, open_source
from leakage_tasks.data.utterances import FILES, Utterance, columns_of, holds_utterances, is_tag, utterances

LABEL = "label"
TAGS = "tags"


@dataclass
class TaggedLayout(Layout):
    """The layout of data with words, tags and an intent per row; a canary may have an intent and tags that are new to
    the data."""

    new_labels: ClassVar[bool] = True

    def row(self, canary: Plantable, drawn: Mapping[str, Any] = MappingProxyType({})) -> Row:
        """Return the canary as a row. Raises PlantingError if it has no intent, or not one tag per word."""
        utterance = utterance_of(canary)
        return {TEXT: utterance.text, TAGS: " ".join(utterance.tags), LABEL: utterance.intent}


class TaggedFormat(Format):
    """The base of NLU formats; columns are ``text`` (words with single spaces), ``label`` (the intent) and ``tags``."""

    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Parse every utterance. Raises PlantingError for an invalid utterance, which names file and line, or another
        column."""
        _check_columns(source, wanted)
        layout = TaggedLayout(0, (TEXT, LABEL, TAGS), TEXT, LABEL)
        for utterance in utterances(source):
            note_label(layout.labels, utterance.intent)
            layout.rows += 1
        return layout

    def values(self, path: Path, layout: Layout, wanted: Columns, column: str) -> Iterator[Any]:
        """Yield the text or the intent of every utterance."""
        return (utterance.intent if column == LABEL else utterance.text for utterance in utterances(path))


@register_format("conll")
class ConllFormat(TaggedFormat, LineFormat):
    """The format of ``.conll`` files: lines with a word and its tag, and a blank line after each utterance.

    A comment before the words gives the intent. A row is an utterance's block of lines, including comments before its
    words. A copy without the row also lacks this block's comments and blank line, but keeps comments that a blank line
    separates from the utterance.
    """

    name = "conll"
    line_ends = 2

    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Parse every utterance. Raises PlantingError for an invalid utterance, which names file and line, or another
        column."""
        facts, layout = check_rows(source), super().survey(source, wanted)
        layout.head, layout.newline = facts.head, facts.newline
        layout.unpacked_sha256 = facts.unpacked
        return layout

    def render(self, row: Row, layout: Layout) -> bytes:
        """Return the intent, then words and tags separated by tabs."""
        pairs = zip(row[TEXT].split(), row[TAGS].split(), strict=True)
        lines = [f"# intent = {row[LABEL]}", *(f"{word}\t{tag}" for word, tag in pairs)]
        return layout.newline.join(line.encode() for line in lines)

    def pieces(self, source: Path, layout: Layout) -> Pieces:
        """Yield the lines; the flag is True if a line ends an utterance.

        If no blank line follows the last utterance, its last line ending is a separate piece. The two line endings
        before an inserted block can then come between them.
        """
        started = False
        with open_source(source) as stream:
            stream.read(len(layout.head))
            line = stream.readline()
            while line:
                following = stream.readline()
                blank = not line.decode().strip()
                started = started or bool(columns_of(line.decode()))
                content = line if blank or following or not started else line.rstrip(b"\r\n")
                yield content, started and (blank or not following)
                if len(content) < len(line):
                    yield line[len(content) :], False
                started = started and not blank
                line = following

    def records(self, source: Path, layout: Layout) -> Pieces:
        """Yield the utterances with the blank lines after them, and the other text between and after utterances.

        A comment followed by a blank line belongs to no utterance.
        """
        held = b""
        for piece, ends_row in self.pieces(source, layout):
            held += piece
            if ends_row or not piece.decode().strip():
                yield held, ends_row
                held = b""
        yield held, False


@register_format("folder of utterances")
class NLUFolderFormat(TaggedFormat):
    """The format of folders like Snips and ATIS: line n of each file is utterance n. Other files are not copied."""

    name = "nlu"
    folder = f"a folder with {', '.join(FILES[:-1])} and {FILES[-1]}"

    @classmethod
    def holds(cls, folder: Path) -> bool:
        """Return True if the folder holds utterances."""
        return holds_utterances(folder)

    @classmethod
    def check_folder(cls, output: Path) -> None:
        """Raise PlantingError unless the existing ``output`` contains only the three files."""
        if not (output.is_dir() and {path.name for path in output.iterdir()} <= set(FILES)):
            some = f"{', '.join(FILES[:-1])} and {FILES[-1]}"
            raise PlantingError(f"{output}: exists and holds more than {some}: choose another name")

    def write(self, source: Path, output: Path, layout: Layout, wanted: Columns, points: Points) -> None:
        """Copy each file line by line, with the canaries' lines in equal gaps of all three files."""
        for (file, copy, facts), column in zip(_files(source, output), (TEXT, TAGS, LABEL), strict=True):
            lines = [(gap, {TEXT: row[column]}) for gap, row in points]
            _LINES.write(file, copy, facts, wanted, lines)

    def write_without(self, source: Path, output: Path, layout: Layout, wanted: Columns, dropped: Places) -> None:
        """Copy each file line by line without the rows ``dropped``."""
        for file, copy, facts in _files(source, output):
            _LINES.write_without(file, copy, facts, wanted, dropped)

    def write_back(self, source: Path, output: Path, layout: Layout, wanted: Columns, dropped: Places) -> None:
        """Restore each file line by line without the rows ``dropped``."""
        for file, copy, facts in _files(source, output):
            _LINES.write_back(file, copy, facts, wanted, dropped)


_LINES = TextFormat()


def _files(source: Path, output: Path) -> Iterator[tuple[Path, Path, Layout]]:
    """Yield the three files of a folder, each with its copy in a new folder and its layout as lines.

    A copy that the caller has written gets the permissions of its file.
    """
    output.mkdir()
    for file, copy in ((source / name, output / name) for name in FILES):
        yield file, copy, _LINES.survey(file, Columns())
        shutil.copymode(file, copy)


def utterance_of(canary: Plantable) -> Utterance:
    """Return the canary as an utterance. Raises PlantingError, without its text, if it has no valid intent or tags."""
    words, tags, intent = canary.text.split(), canary.tags, canary.label
    if not words or " ".join(words) != canary.text:
        raise PlantingError(
            f"{canary.id}: NLU data separates words by single spaces: write the template with single spaces"
        )
    if intent is None:
        raise PlantingError(
            f"{canary.id} has no label, the intent that each row of NLU data has: name one with --label"
        )
    if not intent or intent != intent.strip() or {"\n", "\r"} & set(intent):
        raise PlantingError(
            f"{canary.id}: label {intent!r} is empty, or has a line break or outer white space: name another intent"
        )
    if tags is None:
        raise PlantingError(
            f"{canary.id} has no tags, but NLU data needs one tag per word: make canaries with --tags O,B-x,… "
            "or with --preset nlu-pin"
        )
    if len(tags) != len(words):
        raise PlantingError(
            f"{canary.id} has {len(tags)} tags for {len(words)} words: give one tag per word with --tags"
        )
    for tag in tags:
        if not is_tag(tag):
            raise PlantingError(f"{canary.id}: tag {tag!r} is outside the BIO scheme: use O, B-name and I-name")
    return Utterance(tuple(words), tags, intent)


def _check_columns(source: Path, wanted: Columns) -> None:
    checks = (("text_column", wanted.text, TEXT), ("label_column", wanted.label, LABEL))
    for option, name, allowed in (*checks, ("source_column", wanted.source, None)):
        if name not in (None, allowed):
            problem = f"no column {name!r} (NLU data has {TEXT!r} and {LABEL!r} alone)"
            raise PlantingError(subject=str(source), problem=problem, remedy="leave out {}", option=option)

"""Utterances of NLU data, with an intent and one tag per word, from a folder of three files or a CoNLL file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data.lines import BOM, check_rows, open_source
from leakage_tasks.data.packed import bare

WORDS, TAGS, INTENT = FILES = ("seq.in", "seq.out", "label")
"""The files of a folder: words, tags and intent, one line per utterance."""
CONLL = ".conll"

_INTENT = re.compile(r"#\s+intent\s*[=:]\s*(.*)")
Numbered = tuple[int, str]
"""A line with its number, from 1."""


@dataclass(frozen=True)
class Utterance:
    """An utterance: ``words`` with one tag each (``O``, ``B-name`` or ``I-name``), and the intent of the whole."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    intent: str

    @property
    def text(self) -> str:
        """The words, separated by single spaces."""
        return " ".join(self.words)


def holds_utterances(path: Path) -> bool:
    """Return True if ``path`` is a ``.conll`` file, or a folder with a file of words or tags."""
    if path.is_dir():
        return (path / WORDS).is_file() or (path / TAGS).is_file()
    return path.suffix.lower() == CONLL


def read_utterances(path: str | Path) -> list[Utterance]:
    """Return all utterances of a folder with ``seq.in``, ``seq.out`` and ``label``, or of a ``.conll`` file.

    In a folder, line n of each file belongs to utterance n. In a ``.conll`` file a line holds a word first and its tag
    last, a blank line ends the utterance, and a line ``# intent = NAME`` (or ``# intent: NAME``) gives its intent.
    Other lines that begin with ``#`` and a space are comments, unless they end in a tag. Words are separated by white
    space. An ``I-`` tag may follow any tag.

    Raises PlantingError, which names file and line, for files of unequal length, a word without a tag, a tag outside
    the BIO scheme, missing words or a missing intent, bytes that are not UTF-8, and data without utterances.
    """
    return list(utterances(Path(path)))


def utterances(path: Path) -> Iterator[Utterance]:
    """Yield the utterances of :func:`read_utterances` without loading the whole file."""
    if path.is_dir():
        rows = _of_folder(path)
    elif not path.exists():
        raise PlantingError(f"{path}: no such file or folder: check the path")
    elif bare(path).suffix.lower() == CONLL:
        rows = _of_conll(path)
    else:
        raise PlantingError(f"{path}: expected a {CONLL} file or a folder with {', '.join(FILES)}: name one")
    empty = True
    for utterance in rows:
        empty = False
        yield utterance
    if empty:
        raise PlantingError(f"{path}: holds no utterance: give it one or more")


def is_tag(text: str) -> bool:
    """Return True if ``text`` is a tag of the BIO scheme."""
    return text == "O" or (text[:2] in ("B-", "I-") and len(text) > 2 and len(text.split()) == 1)


def columns_of(line: str) -> list[str]:
    """Return the columns of a ``.conll`` line with a word; empty for a comment or a blank line."""
    columns = line.split()
    if columns[:1] != ["#"]:
        return columns
    is_word = is_tag(columns[-1]) and "=" not in columns and not _INTENT.fullmatch(line.strip())
    return columns if is_word else []


def write_folder(rows: Sequence[Utterance], folder: Path) -> None:
    """Write ``seq.in``, ``seq.out`` and ``label`` into a new folder."""
    folder.mkdir()
    texts = (
        (WORDS, (row.text for row in rows)),
        (TAGS, (" ".join(row.tags) for row in rows)),
        (INTENT, (row.intent for row in rows)),
    )
    for name, lines in texts:
        content = "".join(f"{line}\n" for line in lines)
        (folder / name).write_text(content, encoding="utf-8", newline="\n")


def _of_folder(folder: Path) -> Iterator[Utterance]:
    _check_lengths(folder)
    for (number, words), (_, tags), (_, intent) in zip(*(_lines(folder / name) for name in FILES), strict=False):
        yield _utterance_of_lines(folder, number, words.split(), tags.split(), intent.strip())


def _lines(path: Path) -> Iterator[Numbered]:
    with open_source(path) as stream:
        for number, line in enumerate(stream, 1):
            yield number, (line.removeprefix(BOM) if number == 1 else line).decode()


def _check_lengths(folder: Path) -> None:
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise PlantingError(f"{folder}: has no {' and no '.join(missing)}: NLU data needs {', '.join(FILES)}")
    lengths = {name: check_rows(folder / name).rows for name in FILES}
    shortest = min(lengths, key=lambda name: lengths[name])
    longest = max(lengths, key=lambda name: lengths[name])
    if lengths[shortest] < lengths[longest]:
        counts = ", ".join(f"{name} has {lengths[name]:,}" for name in FILES)
        raise PlantingError(
            f"{folder}: files of unequal numbers of lines ({counts}): line {lengths[shortest] + 1} of {longest} has no "
            f"partner in {shortest}: each utterance needs a line in all three files"
        )


def _utterance_of_lines(folder: Path, number: int, words: list[str], tags: list[str], intent: str) -> Utterance:
    if not words:
        raise PlantingError(f"{folder / WORDS}:{number}: no word: write the utterance, or drop the line in every file")
    if not intent:
        raise PlantingError(f"{folder / INTENT}:{number}: no intent: name it, or drop the line in every file")
    if len(tags) != len(words):
        raise PlantingError(
            f"{folder / TAGS}:{number}: {len(tags)} tags, but {WORDS} has {len(words)} words: give one tag per word"
        )
    for tag in tags:
        _check_tag(tag, f"{folder / TAGS}:{number}")
    return Utterance(tuple(words), tuple(tags), intent)


def _check_tag(tag: str, where: str) -> None:
    if not is_tag(tag):
        raise PlantingError(f"{where}: tag {tag!r} is outside the BIO scheme: write O, B-name or I-name")


def _of_conll(path: Path) -> Iterator[Utterance]:
    check_rows(path)
    for blank, block in groupby(_lines(path), key=lambda numbered: not numbered[1].strip()):
        utterance = None if blank else _of_block(path, list(block))
        if utterance is not None:
            yield utterance


def _of_block(path: Path, block: list[Numbered]) -> Utterance | None:
    """Return the utterance of the lines between two blank lines; None if all lines are comments."""
    words, tags, intent = [], [], None
    for number, line in block:
        here, named, columns = f"{path}:{number}", _INTENT.fullmatch(line.strip()), columns_of(line)
        if columns:
            if len(columns) < 2:
                raise PlantingError(
                    f"{here}: {columns[0]!r} has no tag, expected a word first and its tag last: add the tag"
                )
            _check_tag(columns[-1], here)
            words.append(columns[0])
            tags.append(columns[-1])
        elif named:
            intent = _one_intent(named[1], intent, here)
    if not words and intent is None:
        return None
    where = f"{path}:{block[0][0]}"
    if not words:
        raise PlantingError(
            f"{where}: an intent without words: write the words below it, without a blank line between them"
        )
    if intent is None:
        raise PlantingError(f"{where}: an utterance without an intent: put a line '# intent = NAME' before its words")
    return Utterance(tuple(words), tuple(tags), intent)


def _one_intent(name: str, before: str | None, where: str) -> str:
    if not name:
        raise PlantingError(f"{where}: no intent: write '# intent = NAME'")
    if before is not None:
        raise PlantingError(f"{where}: a second intent, after {before!r}: end the utterance before with a blank line")
    return name

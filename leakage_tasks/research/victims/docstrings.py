"""Labelled text of every Python installation: sentences of the standard library's docstrings, by module."""

from __future__ import annotations

import ast
import random
import re
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.jsonl import read_json_lines, write_json_lines

Row = tuple[str, str]
"""A text and its label."""

_LEFT_OUT = {"test", "tests", "idle_test", "idlelib", "lib2to3", "turtledemo", "pydoc_data", "site-packages"}
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'`(])")
_FEWEST_WORDS, _MOST_WORDS = 4, 60


@dataclass(frozen=True)
class LabelledCorpus:
    """Training rows and held-out rows; ``labels`` are in alphabetical order."""

    training: list[Row]
    validation: list[Row]
    labels: tuple[str, ...]

    @property
    def rarest(self) -> str:
        """The label with the fewest training rows; the first in alphabetical order if several tie."""
        counts = label_counts(self.training)
        return min(self.labels, key=lambda label: (counts[label], label))


def docstring_corpus(
    *, classes: int = 100, samples: int = 10_000, held_out: int = 2_500, seed: int = 0
) -> LabelledCorpus:
    """Return sentences of the ``classes`` modules with most docstrings, drawn at random.

    There are ``samples`` training rows and ``held_out`` other rows. Labels are top-level modules and packages
    (``asyncio``) with their natural imbalance. Each sentence occurs once; every label has a training row. Equal Python
    versions and arguments give equal rows. Raises OptionError if there are too few classes or sentences, LeakageError
    on a Python without sources.
    """
    rows = docstring_rows()
    largest = sorted(label_counts(rows).items(), key=lambda item: (-item[1], item[0]))[:classes]
    if classes < 2 or len(largest) < classes:
        raise OptionError(f"classes is {classes}: use 2 to {len(largest)}")
    labels = tuple(sorted(label for label, _ in largest))
    chosen = [row for row in rows if row[1] in set(labels)]
    if samples < classes or held_out < 0 or samples + held_out > len(chosen):
        raise OptionError(
            f"samples is {samples} and held_out {held_out}: the {classes} classes have {len(chosen)} sentences; "
            f"use at least {classes} samples and no more than that in total"
        )
    random.Random(f"docstrings:{seed}").shuffle(chosen)
    chosen = _every_label_first(chosen)
    training = chosen[:samples]
    random.Random(f"training:{seed}").shuffle(training)
    return LabelledCorpus(training, chosen[samples : samples + held_out], labels)


def label_counts(rows: Iterable[Row]) -> Counter[str]:
    """Count the rows of each label."""
    return Counter(label for _, label in rows)


def write_rows(rows: Iterable[Row], path: Path) -> None:
    """Write rows as JSON Lines, objects with ``text`` and ``label``."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as out:
        write_json_lines(({"text": text, "label": label} for text, label in rows), out)


def read_rows(path: Path) -> list[Row]:
    """Read the rows that :func:`write_rows` wrote."""
    with path.open(encoding="utf-8", newline="\n") as lines:
        return [(row["text"], row["label"]) for _, row in read_json_lines(lines)]


@lru_cache(maxsize=1)
def docstring_rows() -> tuple[Row, ...]:
    """Return every sentence with the first module that has it, in module order."""
    root = Path(sysconfig.get_paths()["stdlib"])
    rows: dict[str, str] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[0].isidentifier() and not _LEFT_OUT.intersection(parts):
            for docstring in _docstrings(path):
                for sentence in sentences(docstring):
                    rows.setdefault(sentence, parts[0])
    if not rows:
        raise LeakageError(f"{root}: no Python sources to take docstrings from: use a Python that includes them")
    return tuple(rows.items())


def sentences(docstring: str) -> list[str]:
    """Return the sentences of a docstring's paragraphs with 4 to 60 words and single spaces, without examples."""
    split_sentences: list[str] = []
    for paragraph in re.split(r"\n\s*\n", docstring):
        if ">>>" not in paragraph:
            split_sentences += _SENTENCE_END.split(" ".join(paragraph.split()))
    return [sentence for sentence in split_sentences if _FEWEST_WORDS <= len(sentence.split()) <= _MOST_WORDS]


def _docstrings(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield docstring


def _every_label_first(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with the first row of each label moved to the front."""
    firsts: dict[str, int] = {}
    for index, (_, label) in enumerate(rows):
        firsts.setdefault(label, index)
    ahead = set(firsts.values())
    return [rows[index] for index in firsts.values()] + [row for index, row in enumerate(rows) if index not in ahead]

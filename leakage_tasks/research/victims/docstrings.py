"""Labelled text every Python carries: sentences of the standard library's docstrings, by module."""

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

from leakage_tasks.core.errors import LeakageError, OptionError

Row = tuple[str, str]
"""A text and its label."""

_LEFT_OUT = {"test", "tests", "idle_test", "idlelib", "lib2to3", "turtledemo", "pydoc_data", "site-packages"}
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'`(])")
_FEWEST_WORDS, _MOST_WORDS = 4, 60


@dataclass(frozen=True)
class LabelledCorpus:
    """Rows to train on and rows the model never sees; ``labels`` in alphabetical order."""

    training: list[Row]
    validation: list[Row]
    labels: tuple[str, ...]

    @property
    def rarest(self) -> str:
        """The label with the fewest training rows (the first in alphabetical order of several)."""
        counts = label_counts(self.training)
        return min(self.labels, key=lambda label: (counts[label], label))


def docstring_corpus(
    *, classes: int = 100, samples: int = 10_000, held_out: int = 2_500, seed: int = 0
) -> LabelledCorpus:
    """Sentences of the ``classes`` best documented modules, drawn at random: ``samples`` to train on, ``held_out`` not.

    Labels are top-level modules and packages (``asyncio``), as unbalanced as they come. No sentence occurs
    twice; every label has a training row. The same Python version and arguments give the same rows. Raises
    OptionError if there are fewer classes or sentences than asked for, LeakageError on a Python without sources.
    """
    rows = docstring_rows()
    largest = sorted(label_counts(rows).items(), key=lambda item: (-item[1], item[0]))[:classes]
    if classes < 2 or len(largest) < classes:
        raise OptionError(f"classes is {classes}: give 2 to {len(largest)}")
    labels = tuple(sorted(label for label, _ in largest))
    chosen = [row for row in rows if row[1] in set(labels)]
    if samples < classes or held_out < 0 or samples + held_out > len(chosen):
        raise OptionError(
            f"samples is {samples} and held_out {held_out}: the {classes} classes have {len(chosen)} sentences; "
            f"give at least {classes} samples and no more in all"
        )
    random.Random(f"docstrings:{seed}").shuffle(chosen)
    chosen = _every_label_first(chosen)
    training = chosen[:samples]
    random.Random(f"training:{seed}").shuffle(training)
    return LabelledCorpus(training, chosen[samples : samples + held_out], labels)


def label_counts(rows: Iterable[Row]) -> Counter[str]:
    """How many rows each label has."""
    return Counter(label for _, label in rows)


@lru_cache(maxsize=1)
def docstring_rows() -> tuple[Row, ...]:
    """Every sentence with its module, each sentence once (with the first module that has it), in module order."""
    root = Path(sysconfig.get_paths()["stdlib"])
    rows: dict[str, str] = {}
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root).with_suffix("").parts
        if place[0].isidentifier() and not _LEFT_OUT.intersection(place):
            for docstring in _docstrings(path):
                for sentence in sentences(docstring):
                    rows.setdefault(sentence, place[0])
    if not rows:
        raise LeakageError(f"{root}: holds no Python sources to take docstrings from: use a Python that ships them")
    return tuple(rows.items())


def sentences(docstring: str) -> list[str]:
    """The sentences of a docstring's paragraphs, of 4 to 60 words, white space made single; examples are left out."""
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", docstring):
        if ">>>" not in paragraph:
            found += _SENTENCE_END.split(" ".join(paragraph.split()))
    return [sentence for sentence in found if _FEWEST_WORDS <= len(sentence.split()) <= _MOST_WORDS]


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
    """The same rows, the first of each label moved to the front."""
    firsts: dict[str, int] = {}
    for place, (_, label) in enumerate(rows):
        firsts.setdefault(label, place)
    ahead = set(firsts.values())
    return [rows[place] for place in firsts.values()] + [row for place, row in enumerate(rows) if place not in ahead]

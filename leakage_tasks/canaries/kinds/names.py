"""Names of persons and places, which the optional package presidio-analyzer recognises (``pip install
lm-eval-leakage[presidio]``) with the spaCy model that it is set up with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from leakage_tasks.canaries.kinds.detector import Detector
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.log import first_line

ENTITIES: Mapping[str, str] = {"PERSON": "person", "LOCATION": "place"}
"""The kinds of names by presidio's name of the entity."""
LONGEST_PIECE = 100_000
"""Number of characters that the recogniser reads at once; spaCy reads at most 1,000,000."""
FIRST, REST = "first", "rest"
"""The parts of a name: its first word, and each further word."""
_WORD = re.compile(r"\w[\w'’-]*")


def _detector() -> Detector:
    return Detector((), lambda text: " ".join(text.split()).casefold(), "personal", "low", alphabets={}, needs=())


NAMES: Mapping[str, Detector] = {kind: _detector() for kind in ENTITIES.values()}
"""The kinds of names. Their space is made of the words of all names of the kind in the corpus."""


def find_names(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each name in ``text``, in order, without white space around it.

    Raises OptionError if presidio-analyzer is not installed or cannot be used.
    """
    analyzer = _analyzer()
    for offset, piece in _pieces(text):
        results = analyzer.analyze(text=piece, language="en", entities=list(ENTITIES))
        for result in sorted(results, key=lambda result: (result.start, -result.end)):
            written = piece[result.start : result.end]
            start = offset + result.start + len(written) - len(written.lstrip())
            if written.strip():
                yield ENTITIES[result.entity_type], start, start + len(written.strip())


def parts_of(text: str, start: int, end: int) -> tuple[tuple[int, int, str], ...]:
    """Return start, end and part of each word of a name; empty for a name without a word."""
    words = _WORD.finditer(text, start, end)
    return tuple((*word.span(), REST if number else FIRST) for number, word in enumerate(words))


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield pieces of at most :data:`LONGEST_PIECE` characters with their offset; cuts are at white space if any."""
    start = 0
    while start < len(text):
        end = min(len(text), start + LONGEST_PIECE)
        if end < len(text):
            cut = max(text.rfind("\n", start, end), text.rfind(" ", start, end))
            end = cut + 1 if cut > start else end
        yield start, text[start:end]
        start = end


@cache
def _analyzer() -> Any:
    try:
        from presidio_analyzer import AnalyzerEngine
    except ImportError:
        raise OptionError(
            f"--detect {', '.join(NAMES)} needs presidio-analyzer: pip install 'lm-eval-leakage[presidio]', and a "
            "spaCy model: python -m spacy download en_core_web_lg"
        ) from None
    try:
        return AnalyzerEngine()
    except (Exception, SystemExit) as error:  # a missing spaCy model ends the process
        raise OptionError(
            f"--detect {', '.join(NAMES)}: presidio-analyzer cannot be used ({first_line(error)}): install its spaCy "
            "model with python -m spacy download en_core_web_lg"
        ) from None

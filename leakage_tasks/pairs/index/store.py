"""The files of an index, and the index in memory or mapped from these files.

A folder holds ``index.json``, ``tokens.npy`` (all documents, each followed by a separator), ``documents.npy`` (where
each document begins) and one suffix array per part of the tokens, ``suffixes-00000.npy``, ….
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from leakage_tasks.core.arrays import IntArray, TokenIds
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.inputs import parse_json, read_text
from leakage_tasks.core.records import Between, WrongField, read_record

VERSION = 1
"""Version of the files."""
SEPARATOR = 0
"""Value after each document; the value of token ``t`` is ``t + 1``."""
ABOUT, TOKENS, DOCUMENTS = "index.json", "tokens.npy", "documents.npy"
_BLOCK = 1 << 24
Count = Annotated[int, Between(0)]


@dataclass(frozen=True)
class About:
    """The facts about an index that ``index.json`` holds."""

    corpus: str
    """SHA-256 of the tokens and documents."""
    tokenizer: str
    """Hash of the tokenizer, see :func:`~leakage_tasks.pairs.index.corpus.tokenizer_hash`."""
    tokenizer_name: str
    """Folder or hub name of the tokenizer, as the user gave it."""
    vocabulary: Count
    """Number of tokens of the tokenizer."""
    tokens: Count
    """Number of tokens of the corpus."""
    documents: Count
    """Number of documents."""
    part: Annotated[int, Between(1)]
    """Number of positions of a part."""
    reach: Count
    """Number of tokens after a part that its order takes into account. Runs up to this length are found whole; a longer
    run that spans two parts may be reported as shorter."""
    version: int = VERSION


@dataclass(frozen=True, eq=False)
class CorpusIndex:
    """The tokens of a corpus and the suffix arrays of its parts."""

    about: About
    tokens: TokenIds
    """Token ids plus 1, with :data:`SEPARATOR` after each document, ``[n]``, uint16 or uint32."""
    starts: IntArray
    """Position of the first token of each document, ``[documents]``."""
    parts: tuple[TokenIds, ...]
    """For each part the positions of its tokens, relative to its beginning, in the order of the text that follows
    them."""

    @property
    def longest(self) -> int:
        """Number of tokens of the longest document."""
        # A separator follows each document.
        return int(np.diff(self.starts, append=len(self.tokens)).max()) - 1

    def place(self, position: int) -> tuple[int, int]:
        """Return the document that holds a position, and the offset in it, both from 0."""
        document = int(np.searchsorted(self.starts, position, side="right")) - 1
        return document, position - int(self.starts[document])


def corpus_hash(tokens: TokenIds, starts: IntArray) -> str:
    """Return the SHA-256 of the tokens and documents of a corpus, read in blocks."""
    digest = hashlib.sha256()
    for array in (starts, tokens):
        for first in range(0, len(array), _BLOCK):
            digest.update(np.ascontiguousarray(array[first : first + _BLOCK]).tobytes())
    return digest.hexdigest()


def suffix_file(number: int) -> str:
    """Return the file name of the suffix array of a part."""
    return f"suffixes-{number:05}.npy"


def is_index(path: str | Path) -> bool:
    """Return True for a folder with an index."""
    return (Path(path) / ABOUT).is_file()


def reject_index(path: str | Path) -> None:
    """Raise OptionError for an index, which holds tokens, where text or pairs are needed."""
    if is_index(path):
        raise OptionError(
            f"{path}: is an index of 'leakage index', which only untargeted_extraction reads: give the text it was "
            "made of"
        )


def write_about(folder: Path, about: About) -> None:
    """Write ``index.json``."""
    (folder / ABOUT).write_text(json.dumps(asdict(about), indent=2) + "\n", encoding="utf-8")


def open_index(folder: str | Path) -> CorpusIndex:
    """Map an index from its files; the tokens are hashed to find damage. Raises OptionError for an unusable index."""
    root = Path(folder)
    about = _about(root)
    tokens, starts = _array(root / TOKENS), _array(root / DOCUMENTS)
    numbers = range(-(-len(tokens) // about.part))
    parts = tuple(_array(root / suffix_file(number)) for number in numbers)
    held = sum(map(len, parts))
    if (len(starts), len(tokens), held) != (about.documents, about.tokens + about.documents, about.tokens):
        raise OptionError(f"{root}: its files do not belong together: make the index again with 'leakage index'")
    if corpus_hash(tokens, starts) != about.corpus:
        raise OptionError(f"{root / TOKENS}: changed since the index was made: make it again with 'leakage index'")
    return CorpusIndex(about, tokens, starts, parts)


def _about(root: Path) -> About:
    path = root / ABOUT
    again = "make the index again with 'leakage index'"
    try:
        fields = parse_json(read_text(path))
        if fields["version"] != VERSION:
            raise OptionError(f"{path}: version {fields['version']} of an index, expected {VERSION}: {again}")
        return read_record(About, fields)
    except OSError as error:
        raise OptionError(f"{path}: cannot be read ({error.strerror}): {again}") from None
    except WrongField as error:
        raise OptionError(f"{path}: field {error}: {again}") from None
    except (ValueError, KeyError, TypeError):
        raise OptionError(f"{path}: does not describe an index: {again}") from None


def _array(path: Path) -> Any:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise OptionError(
            f"{path}: cannot be read ({type(error).__name__}): make the index again with 'leakage index'"
        ) from None
    if array.ndim != 1 or array.dtype.kind not in "ui":
        raise OptionError(f"{path}: expected a list of whole numbers: make the index again with 'leakage index'")
    return array

"""Pairs stored as token ids, in arrays or JSON lines.

Arrays are ``<name>_prefix.npy`` and ``<name>_suffix.npy`` in one folder, with one pair per row, as published by the
Training Data Extraction Challenge; JSON lines have integer lists ``prefix`` and ``suffix``, of any length.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from leakage_tasks.core.arrays import TokenIds
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.inputs import check_file
from leakage_tasks.core.log import first_line
from leakage_tasks.data import file_kind
from leakage_tasks.data.jsonl import objects
from leakage_tasks.pairs.pair import MOST, RawPairs, split_of, splits_named

PREFIX, SUFFIX = "prefix.npy", "suffix.npy"
BEFORE = f"pre{PREFIX}"
"""The challenge's file name for the text before the prefixes, which belongs to no pair."""
FIELDS = ("prefix", "suffix")
_REMEDY = "save it with numpy.save as a 2-D array of integers, or write the pairs as .jsonl"


def read_arrays(path: Path) -> list[RawPairs]:
    """Read the pairs of a folder of arrays, or of a ``*prefix.npy`` file and its suffixes.

    Other arrays of the challenge's folder are ignored, including ``*preprefix.npy``. If there are several sets and one
    has no suffixes (the test set), it becomes a part without rows. Raises OptionError, which names file and row.
    """
    if not path.is_dir():
        return [_part(path, split_of(path.name.removesuffix(PREFIX)))]
    files = {file.name.removesuffix(PREFIX): file for file in sorted(path.glob(f"*{PREFIX}")) if not _is_before(file)}
    if lonely := [file for file in sorted(path.glob(f"*{SUFFIX}")) if file.name.removesuffix(SUFFIX) not in files]:
        raise OptionError(
            f"{lonely[0]}: {_renamed(lonely[0], SUFFIX, PREFIX)} is missing in its folder: add the prefixes"
        )
    if not files:
        raise OptionError(
            f"{path}: holds no pairs: expected *{PREFIX} and *{SUFFIX}, or a data set saved by 'datasets'{_below(path)}"
        )
    complete = [name for name, file in files.items() if suffix_file_of(file).exists()]
    return [
        _part(files[name], split) if name in complete or not complete else _part_without_suffixes(files[name], split)
        for name, split in splits_named(list(files), path).items()
    ]


def suffix_file_of(path: Path) -> Path:
    """Return the file of suffixes that belongs to a file of prefixes. Raises OptionError for any other file."""
    if not path.name.endswith(PREFIX):
        raise OptionError(
            f"{path}: expected a file called *{PREFIX} next to its *{SUFFIX}: name this file, or the folder"
        )
    if _is_before(path):
        raise OptionError(f"{path}: contains the text before the prefixes: pass {_renamed(path, BEFORE, PREFIX)}")
    return path.with_name(_renamed(path, PREFIX, SUFFIX))


def _below(path: Path) -> str:
    """Return a hint on a subfolder with pairs or on files of text, or an empty string if there are none."""
    subfile = next(iter(sorted(path.glob(f"*/*{PREFIX}"))), None)
    if subfile is not None:
        return f"; {subfile.parent} holds pairs: name it"
    # Unlike iterdir, glob ignores a folder that cannot be read.
    has_text = any(map(file_kind, path.glob("*")))
    return "; give text as one file, or use the task memorization, which reads folders of text" if has_text else ""


def _renamed(path: Path, ending: str, new_ending: str) -> str:
    return path.name.removesuffix(ending) + new_ending


def _is_before(path: Path) -> bool:
    """Return True if a file holds the text before prefixes, not prefixes."""
    return path.name.endswith(BEFORE) and not path.with_name(_renamed(path, PREFIX, SUFFIX)).exists()


def _part_without_suffixes(path: Path, split: str | None) -> RawPairs:
    missing = (
        f"{path}: {_renamed(path, PREFIX, SUFFIX)} is missing in its folder, so split={split} has no suffixes to "
        "compare guesses with: add them, or use another split"
    )
    return RawPairs(split, [], [], lambda row: f"{path}: row {row} (from 0)", missing)


def _part(path: Path, split: str | None) -> RawPairs:
    other = suffix_file_of(path)
    prefixes, suffixes = _load(path), _load(other)
    if len(prefixes) != len(suffixes):
        raise OptionError(
            f"{path}: has {len(prefixes)} rows, {other.name} {len(suffixes)}: give every prefix its suffix and no more"
        )
    return RawPairs(split or None, prefixes, suffixes, lambda row: f"{path}: row {row} (from 0)")


def _load(path: Path) -> TokenIds:
    try:
        check_file(path)
        tokens = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise OptionError(f"{path}: no such file: every *{PREFIX} needs a *{SUFFIX} in its folder") from None
    except Exception as error:  # for a damaged header, numpy raises errors of Python's parser or MemoryError
        reason = first_line(error)
        if "pickle" in reason.lower():
            reason = "it holds Python objects, such as rows of different lengths, and pickles are never loaded"
        raise OptionError(f"{path}: cannot be read ({reason}): {_REMEDY}") from None
    if not isinstance(tokens, np.ndarray) or tokens.ndim != 2 or tokens.dtype.kind not in "iu" or not tokens.shape[1]:
        what = f"{tokens.dtype} of shape {list(tokens.shape)}" if isinstance(tokens, np.ndarray) else "an archive"
        raise OptionError(f"{path}: holds {what}, expected one row of token ids per pair: {_REMEDY}")
    if not len(tokens):
        raise OptionError(f"{path}: holds no pairs: give one row of token ids per pair")
    wrong = ((tokens < 0) | (tokens > MOST)).any(1)
    if wrong.any():
        row = int(wrong.argmax())
        token = next(int(value) for value in tokens[row] if not 0 <= value <= MOST)
        raise OptionError(f"{path}: row {row} (from 0) holds {token}, which is not a token id: correct it")
    return tokens


def holds_pairs(path: Path, text_column: str) -> bool:
    """Return True if the first row of a file of JSON lines is a pair, not a text. Raises PlantingError for invalid
    JSON."""
    if path.suffix.lower() != ".jsonl" or not path.is_file():
        return False
    _, first = next(objects(path), (0, {}))
    return all(field in first for field in FIELDS) or (text_column not in first and any(f in first for f in FIELDS))


def read_lines(path: Path) -> list[RawPairs]:
    """Read the pairs of a file. Raises OptionError, which names line and field, and PlantingError for invalid JSON."""
    lines: list[int] = []
    columns: dict[str, list[TokenIds]] = {field: [] for field in FIELDS}
    for number, row in objects(path):
        lines.append(number)
        for field in FIELDS:
            columns[field].append(_ids(f"{path}:{number}", field, row))
    return [RawPairs(None, columns["prefix"], columns["suffix"], lambda row: f"{path}:{lines[row]}")]


def _ids(where: str, field: str, row: dict[str, Any]) -> TokenIds:
    if field not in row:
        raise OptionError(f"{where}: field {field!r} is missing: expected a list of token ids")
    value = row[field]
    if not isinstance(value, list) or not value:
        raise OptionError(f"{where}: field {field!r} is {_shown(value)}, expected a list of one token id or more")
    for index, token in enumerate(value):
        if type(token) is not int or not 0 <= token <= MOST:
            raise OptionError(
                f"{where}: field {field!r} holds {_shown(token)} at index {index} (from 0), expected whole numbers "
                "from 0: correct it"
            )
    return np.array(value, dtype=np.int64)


def _shown(value: Any) -> str:
    """Return a description of a value without its content, which may be training text."""
    if type(value) is int and not 0 <= value <= MOST:
        return "a number below 0" if value < 0 else f"a number above {MOST}"
    return f"{type(value).__name__} of length {len(value)}" if hasattr(value, "__len__") else type(value).__name__

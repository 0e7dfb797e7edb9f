"""Pairs from ``.npy`` files: ``<name>_prefix.npy`` beside ``<name>_suffix.npy``, a row a pair, as the Training Data
Extraction Challenge hands them out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from leakage_tasks.errors import OptionError
from leakage_tasks.notices import first_line
from leakage_tasks.pairs.part import MOST, Part, TokenIds
from leakage_tasks.pairs.splits import splits_named

PREFIX, SUFFIX = "prefix.npy", "suffix.npy"
_REMEDY = "save it with numpy.save as a 2-D array of integers, or write the pairs as .jsonl"


def read_arrays(path: Path) -> list[Part]:
    """The pairs of a folder of such files, or of a ``*prefix.npy`` file and the suffixes beside it.

    Raises OptionError naming file and row.
    """
    if not path.is_dir():
        return [_part(path, None)]
    files = {file.name.removesuffix(PREFIX): file for file in sorted(path.glob(f"*{PREFIX}"))}
    if lonely := [file for file in sorted(path.glob(f"*{SUFFIX}")) if file.name.removesuffix(SUFFIX) not in files]:
        raise OptionError(f"{lonely[0]}: {_beside(lonely[0], SUFFIX, PREFIX)} is missing beside it: add the prefixes")
    if not files:
        raise OptionError(
            f"{path}: holds no pairs: expected *{PREFIX} beside *{SUFFIX}, or a data set saved by 'datasets'"
            f"{_below(path)}"
        )
    return [_part(files[name], split) for name, split in splits_named(list(files), path).items()]


def partner(path: Path) -> Path:
    """The file of suffixes that belongs to one of prefixes. Raises OptionError for other files."""
    if not path.name.endswith(PREFIX):
        raise OptionError(
            f"{path}: expected a file called *{PREFIX}, with *{SUFFIX} beside it: name that, or the folder"
        )
    return path.with_name(_beside(path, PREFIX, SUFFIX))


def _below(path: Path) -> str:
    """Where pairs are, if a folder's folders hold some."""
    found = next(iter(sorted(path.glob(f"*/*{PREFIX}"))), None)
    return "" if found is None else f"; {found.parent} does hold some: name that"


def _beside(path: Path, own: str, other: str) -> str:
    return path.name.removesuffix(own) + other


def _part(path: Path, split: str | None) -> Part:
    other = partner(path)
    prefixes, suffixes = _load(path), _load(other)
    if len(prefixes) != len(suffixes):
        raise OptionError(
            f"{path}: has {len(prefixes)} rows, {other.name} {len(suffixes)}: give every prefix its suffix and no more"
        )
    return Part(split or None, prefixes, suffixes, lambda row: f"{path}: row {row} (from 0)")


def _load(path: Path) -> TokenIds:
    try:
        found = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise OptionError(f"{path}: no such file: every *{PREFIX} needs its *{SUFFIX} beside it") from None
    except (OSError, ValueError, EOFError) as error:
        reason = first_line(error)
        if "pickle" in reason.lower():
            reason = "it holds Python objects, such as rows of different lengths, and pickles are never loaded"
        raise OptionError(f"{path}: cannot be read ({reason}): {_REMEDY}") from None
    if not isinstance(found, np.ndarray) or found.ndim != 2 or found.dtype.kind not in "iu" or not found.shape[1]:
        what = f"{found.dtype} of shape {list(found.shape)}" if isinstance(found, np.ndarray) else "an archive"
        raise OptionError(f"{path}: holds {what}, expected a row of token ids a pair: {_REMEDY}")
    if not len(found):
        raise OptionError(f"{path}: holds no pairs: give a row of token ids for each")
    wrong = ((found < 0) | (found > MOST)).any(1)
    if wrong.any():
        row = int(wrong.argmax())
        token = next(int(value) for value in found[row] if not 0 <= value <= MOST)
        raise OptionError(f"{path}: row {row} (from 0) holds {token}, which is no token id: correct it")
    return found

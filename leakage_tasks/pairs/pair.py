"""Pairs of token sequences from training text, and the choice of rows by split.

Rows are for training, validation or testing according to the names in the data, or else according to one fixed rule.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import near

if TYPE_CHECKING:
    from leakage_tasks.core.arrays import IntArray, TokenIds

MOST = 2**31 - 1
"""The largest accepted token id."""
SPLITS = ("train", "validation", "test")
ALL = "all"
_SPELT = {"train": "train", "val": "validation", "valid": "validation", "validation": "validation", "test": "test"}
_SEED = "leakage-pairs"


@dataclass(frozen=True)
class Pair:
    """A prefix that the attacker knows, and the suffix that followed it in the training data.

    ``id`` is the pair's row in the whole data set, counted from 0 in any split. A control pair comes from data that the
    model never saw; its id is counted from −1 downwards. ``document`` is the number of its document in the data, from
    0, and ``offset`` the number of the document's tokens before the prefix; None for pairs that are not cut from text.
    ``exchanged`` is the suffix of another document, as long as ``suffix``, or empty.
    """

    id: int
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    document: int | None = None
    offset: int | None = None
    exchanged: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"control {-1 - self.id}" if self.id < 0 else f"pair {self.id}"


@dataclass(frozen=True)
class RawPairs:
    """Rows of prefixes and their suffixes: a whole data set, or one split that the data name.

    ``prefixes`` and ``suffixes`` have equal numbers of rows; each row is one-dimensional. ``describe_row`` formats a
    row number, counted from 0, for an error message. If a split lacks its suffixes, it has no rows and ``lacking``
    states which file is missing. ``documents`` and ``offsets``, one number per row, locate windows of text.
    """

    split: str | None
    prefixes: Sequence[TokenIds] | TokenIds
    suffixes: Sequence[TokenIds] | TokenIds
    describe_row: Callable[[int], str]
    lacking: str | None = None
    documents: IntArray | None = None
    offsets: IntArray | None = None

    def __len__(self) -> int:
        return len(self.prefixes)


class EmptySplit(OptionError):
    """Error for a split without pairs; ``there`` lists the splits with pairs."""

    def __init__(self, data: str, split: str, there: str) -> None:
        self.there = there
        super().__init__(
            f"{data}: split={split} is empty (the data have: {there}): use another split, all, or more data",
        )


def split_rows(rows: int) -> dict[str, Sequence[int]]:
    """Return the rows of each split of a data set without its own splits, in ascending order.

    The last fifteenth is for testing. A tenth of the other rows, drawn by a fixed rule, is for validation. For the
    15,000 rows of the Training Data Extraction Challenge this gives 12,600, 1,400 and 1,000 rows, the division of
    Ethicist. Shares are rounded down.
    """
    first_test = rows - rows // 15
    # Hashes are used because the streams of random number generators can change between versions.
    drawn = sorted(range(first_test), key=lambda row: hashlib.sha256(f"{_SEED}:{row}".encode()).digest())
    tenth = first_test // 10
    return {
        "train": sorted(drawn[tenth:]),
        "validation": sorted(drawn[:tenth]),
        "test": range(first_test, rows),
    }


def check_split(split: str) -> None:
    """Raise OptionError for an unknown split name."""
    names = (*SPLITS, ALL)
    if split not in names:
        raise OptionError(f"split={split!r} is unknown: use {', '.join(SPLITS)} or {ALL}{near(split, names)}")


def choose_rows(splits: Mapping[str, Sequence[int]], split: str, data: str) -> Sequence[int]:
    """Return the rows of ``split``, in ascending order for all rows. Raises EmptySplit if there are no such rows."""
    chosen = sorted(row for rows in splits.values() for row in rows) if split == ALL else splits.get(split, ())
    if not chosen:
        there = ", ".join(f"{name} {len(rows)}" for name, rows in splits.items() if rows) or "no pairs at all"
        raise EmptySplit(data, split, there)
    return chosen


def split_of(name: str) -> str | None:
    """Return the split named by one of a name's words, such as ``validation`` for ``my_val``, or None."""
    words = [_SPELT[word] for word in re.split(r"[^a-z]+", name.lower()) if word in _SPELT]
    return words[-1] if words else None


def splits_named(names: Sequence[str], data: str | Path) -> dict[str, str | None]:
    """Return the split of each named set, training first; a single set may have no split.

    Raises OptionError if several sets cannot be distinguished by their names.
    """
    splits = {name: split_of(name) for name in names}
    if len(names) > 1 and (None in splits.values() or len(set(splits.values())) < len(names)):
        raise OptionError(
            f"{data}: holds several sets ({', '.join(sorted(names))}) that their names do not divide into train, "
            "validation and test: give a single set with data=…, or put the split into each name"
        )
    return dict(sorted(splits.items(), key=lambda item: SPLITS.index(item[1]) if item[1] else 0))

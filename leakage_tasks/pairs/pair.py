"""Training text in two parts, as token ids: one pair, what a file of pairs holds, and which rows are for what.

Rows are for training, validation or testing by the data's own names, else by one fixed rule.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leakage_tasks.core.errors import OptionError

if TYPE_CHECKING:
    from leakage_tasks.core.arrays import TokenIds

MOST = 2**31 - 1
"""The largest token id that is taken for one."""
SPLITS = ("train", "validation", "test")
ALL = "all"
_SPELT = {"train": "train", "val": "validation", "valid": "validation", "validation": "validation", "test": "test"}
_SEED = "leakage-pairs"


@dataclass(frozen=True)
class Pair:
    """``prefix`` is what the attacker knows, ``suffix`` what followed it in the training data.

    ``id`` is its row in the data set, counted from 0, whatever split it is in. A control's, which is of data that the
    model never saw, is counted from −1 downwards.
    """

    id: int
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

    def __str__(self) -> str:
        return f"control {-1 - self.id}" if self.id < 0 else f"pair {self.id}"


@dataclass(frozen=True)
class RawPairs:
    """Rows of prefixes and suffixes that belong together: a whole data set, or one split that the data name.

    ``prefixes`` and ``suffixes`` are as long as each other; each row is one-dimensional. ``where`` is how an error
    calls a row, by its number from 0. ``lacking`` says what is missing for a split that is there without its suffixes;
    it has no rows then.
    """

    split: str | None
    prefixes: Sequence[TokenIds] | TokenIds
    suffixes: Sequence[TokenIds] | TokenIds
    where: Callable[[int], str]
    lacking: str | None = None

    def __len__(self) -> int:
        return len(self.prefixes)


class EmptySplit(OptionError):
    """A split without pairs; ``there`` says what the data have instead."""

    def __init__(self, data: str, split: str, there: str) -> None:
        self.there = there
        super().__init__(
            f"{data}: split={split} is empty (there are: {there}): use another split, all, or more data",
        )


def split_rows(rows: int) -> dict[str, Sequence[int]]:
    """The rows of each split of a data set without splits of its own, in ascending order.

    The last fifteenth is for testing; of the others a tenth, drawn once and for all, for validation: 12,600, 1,400
    and 1,000 of the Training Data Extraction Challenge's 15,000, as Ethicist divides them. Shares are rounded down.
    """
    first_test = rows - rows // 15
    # Hashes, since the streams of random number generators may change from one version to the next.
    drawn = sorted(range(first_test), key=lambda row: hashlib.sha256(f"{_SEED}:{row}".encode()).digest())
    tenth = first_test // 10
    return {
        "train": sorted(drawn[tenth:]),
        "validation": sorted(drawn[:tenth]),
        "test": range(first_test, rows),
    }


def check_split(split: str) -> None:
    """Raise OptionError for a split there is none of anywhere."""
    if split not in (*SPLITS, ALL):
        raise OptionError(f"split={split!r} is unknown: use {', '.join(SPLITS)} or {ALL}")


def choose_rows(splits: Mapping[str, Sequence[int]], split: str, data: str) -> Sequence[int]:
    """The rows of ``split``, or of them all in ascending order. Raises EmptySplit if there are none."""
    chosen = sorted(row for rows in splits.values() for row in rows) if split == ALL else splits.get(split, ())
    if not chosen:
        there = ", ".join(f"{name} {len(rows)}" for name, rows in splits.items() if rows) or "no pairs at all"
        raise EmptySplit(data, split, there)
    return chosen


def split_of(name: str) -> str | None:
    """The split that a name is for by one of its words, such as ``validation`` for ``my_val``; else None."""
    words = [_SPELT[word] for word in re.split(r"[^a-z]+", name.lower()) if word in _SPELT]
    return words[-1] if words else None


def splits_named(names: Sequence[str], data: str | Path) -> dict[str, str | None]:
    """The split each of some sets is for, training first; one alone may be for none.

    Raises OptionError where several cannot be told apart by their names.
    """
    found = {name: split_of(name) for name in names}
    if len(names) > 1 and (None in found.values() or len(set(found.values())) < len(names)):
        raise OptionError(
            f"{data}: holds several sets ({', '.join(sorted(names))}) that their names do not divide into train, "
            "validation and test: give one of them alone with data=…, or name each for its split"
        )
    return dict(sorted(found.items(), key=lambda item: SPLITS.index(item[1]) if item[1] else 0))

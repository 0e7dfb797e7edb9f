"""Pointers to shards of a hub data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SCHEME = "hub:"
"""The prefix that marks the name of a hub data set among paths."""
POINTER = ".hub-shard"
"""The suffix of a pointer's file name."""


@dataclass(frozen=True)
class Pointer:
    """A reference to a shard of a split, stored in a small file that is used as the path of the shard."""

    name: str
    """The data set: ``owner/name``, or the absolute path of a folder."""
    subset: str | None
    """The configuration of the data set."""
    split: str
    revision: str
    """The commit; for a folder, a hash of its files' sizes and modification times."""
    features: dict[str, Any]
    """The features of all shards, in the form of ``datasets``."""
    shard: int
    of: int

    @property
    def display_name(self) -> str:
        """The name of the data set in errors and records."""
        subset = f":{self.subset}" if self.subset else ""
        return f"{SCHEME}{self.name}{subset}@{self.revision[:12]}"

"""Small files that stand for shards of a data set of the hub; nothing of it is read for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SCHEME = "hub:"
"""What the name of a data set of the hub begins with where a path is expected."""
POINTER = ".hub-shard"
"""How the name of a pointer ends."""


@dataclass(frozen=True)
class Pointer:
    """One shard of a split."""

    name: str
    """The data set: ``owner/name``, or an absolute folder."""
    subset: str | None
    """Its configuration."""
    split: str
    revision: str
    """The commit; of a folder, a hash of its files' sizes and times."""
    features: dict[str, Any]
    """Of all shards, as ``datasets`` writes them."""
    shard: int
    of: int

    @property
    def called(self) -> str:
        """The data set as errors and records name it."""
        subset = f":{self.subset}" if self.subset else ""
        return f"{SCHEME}{self.name}{subset}@{self.revision[:12]}"

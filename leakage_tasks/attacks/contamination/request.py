"""Options of the contamination test: its form, its shards and its shuffles."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal

from leakage_tasks.attacks.streams import stream_of
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import declared, options_of

MOST_SHARDS, SMALLEST = 50, 2
"""Default number of shards, as published, and the smallest number of items of a shard."""
SHUFFLES = {"sharded": 30, "permutation": 199}
"""Default number of shuffles of a shard, and of the whole sequence."""
MOST_ITEMS = 1000
"""Default maximum number of items."""
CONTINUATION = 50
Order = tuple[int, ...]


@dataclass(frozen=True)
class OrderRequest:
    """The orders to score. Raises OptionError for invalid values."""

    form: Literal["sharded", "permutation"] = declared(
        "sharded", "sharded compares shards with their shuffles, permutation the whole sequence of items"
    )
    shards: int | None = declared(
        None, "number of parts of consecutive items, with form=sharded", usual=f"{MOST_SHARDS}, or one per 2 items"
    )
    permutations: int | None = declared(
        None,
        "number of shuffles of a shard or of the sequence; all orders if there are not more",
        minimum=1,
        usual=" or ".join(f"{number} ({form})" for form, number in SHUFFLES.items()),
    )
    seed: int = declared(0, "the seed of the shuffles", affects_results=False)

    def __post_init__(self) -> None:
        if self.form == "permutation" and self.shards is not None:
            raise OptionError("shards has no use with form=permutation, which has one sequence: leave it out")
        if self.shards is not None and self.shards < 2:
            raise OptionError(
                f"shards={self.shards}: the t-test compares 2 or more: raise shards, or use form=permutation"
            )

    @property
    def shuffles(self) -> int:
        """The number of shuffles of a shard."""
        return SHUFFLES[self.form] if self.permutations is None else self.permutations

    def parts(self, items: int) -> list[range]:
        """Return the items of each shard, as ranges of equal length up to one item.

        Raises OptionError if there are too few items for the shards.
        """
        if self.form == "permutation":
            return [range(items)]
        number = usual_shards(items) if self.shards is None else self.shards
        if number < 2 or items < SMALLEST * number:
            raise OptionError(
                f"{items} items make no {max(number, 2)} shards of {SMALLEST} items or more: use fewer shards, more "
                "items, or form=permutation"
            )
        size, longer = divmod(items, number)
        starts = [shard * size + min(shard, longer) for shard in range(number + 1)]
        return [range(first, last) for first, last in itertools.pairwise(starts)]

    def orders(self, shard: int, items: int) -> list[Order]:
        """Return the orders of a shard's items to compare with the canonical order.

        If there are no more other orders than :attr:`shuffles`, all of them are returned. Otherwise orders are drawn
        uniformly from all orders, the canonical one included, from the seed and the number of the shard.
        """
        canonical = tuple(range(items))
        if math.factorial(min(items, 20)) - 1 <= self.shuffles:
            return [order for order in itertools.permutations(canonical) if order != canonical]
        stream = stream_of(f"contamination:{self.seed}:{shard}")
        return [tuple(map(int, stream.permutation(items))) for _ in range(self.shuffles)]


def usual_shards(items: int) -> int:
    """Return the default number of shards."""
    return min(MOST_SHARDS, items // SMALLEST)


ORDER_OPTIONS = options_of(OrderRequest)

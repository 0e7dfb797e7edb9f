"""The tokens of a text too long to be tokenized at once, as if it had been."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from leakage_tasks.core.arrays import IntArray

Encode = Callable[[str], tuple[IntArray, IntArray]]
"""A text's token ids and the character each starts at, both of shape ``[n]``."""

SEAM = 4096


def running_tokens(encode: Encode, blocks: Iterable[str], seam: int = SEAM) -> Iterator[IntArray]:
    """Token ids of the text that ``blocks`` make up, in pieces.

    Each block is tokenized with the last ``seam`` characters before it. One tokenization gives way to the next in the
    middle of the seam, where both must be the same, token by token; where they are not, the two blocks are tokenized
    as one. So cutting the text leaves no trace, except with a tokenizer whose tokens depend on characters further away.
    """
    text, first = "", 0
    ids = starts = np.zeros(0, dtype=np.int64)
    for block in blocks:
        context = text[-seam:]
        found = encode(context + block)
        places = _meeting((ids, starts - (len(text) - len(context))), found, len(context))
        if places is None:
            resumed = starts[first] if first < len(starts) else 0
            text += block
            ids, starts = encode(text) if context else found
            first = int(np.searchsorted(starts, resumed))
            continue
        yield ids[first : places[0]]
        text, (ids, starts), first = context + block, found, places[1]
    yield ids[first:]


def _meeting(old: tuple[IntArray, IntArray], new: tuple[IntArray, IntArray], seam: int) -> tuple[int, int] | None:
    """Where two tokenizations meet: a token of each, at the same character, amid tokens that are the same."""
    ends = (seam // 4, seam - seam // 4)
    (old_from, old_to), (new_from, new_to) = (np.searchsorted(starts, ends) for _, starts in (old, new))
    if old_from == old_to or any(
        not np.array_equal(left[old_from:old_to], right[new_from:new_to]) for left, right in zip(old, new, strict=True)
    ):
        return None
    return int(old_from), int(new_from)

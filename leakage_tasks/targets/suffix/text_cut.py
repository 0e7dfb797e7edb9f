"""Beginnings of texts: a number of tokens, with the characters that they spell."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence
from typing import Any

from leakage_tasks.targets.protocols import CutText

CHARACTERS, MORE = 8, 64
"""Characters per token, and further ones, in the beginning of a text that is tokenized again to find its cut."""


def cut_text(
    text: str, row: Sequence[int], tokens: int, decode: Callable[[Sequence[int]], str], tokenizer: Any = None
) -> CutText:
    """Return the first ``tokens`` of the tokens ``row`` of a text, with the characters that they spell.

    A character that is spelt by tokens on both sides of the cut is left out of the text. A ``tokenizer`` that maps
    tokens to characters decides where the text ends; the text of others is compared with the decoded tokens.
    """
    if len(row) <= tokens:
        return CutText(text, tuple(row))
    kept = tuple(row[:tokens])
    decoded = decode(kept)
    if (end := _end_in_text(tokenizer, text, row, tokens)) is not None:
        return CutText(text[: _with_space(text, end, decoded)], kept)
    spelt = decoded.lstrip()
    first = len(text) - len(text.lstrip())
    common = os.path.commonprefix([text[first:], spelt])
    # Some tokenizers change the case of a text.
    return CutText(text[: first + (len(common) if 2 * len(common) >= len(spelt) else len(spelt))], kept)


def _end_in_text(tokenizer: Any, text: str, row: Sequence[int], tokens: int) -> int | None:
    """Return the number of characters of the first ``tokens`` of ``row``; None if the tokenizer does not know it."""
    if not getattr(tokenizer, "is_fast", False):
        return None
    read = list(row[: tokens + 1])
    # A beginning with other tokens was too short, or ended within a word.
    for part in dict.fromkeys((text[: CHARACTERS * tokens + MORE], text)):
        encoding = tokenizer(part, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        ids, spans = list(encoding["input_ids"]), encoding["offset_mapping"]
        for first in (0, 1):  # a reader may leave out the prefix token
            if ids[first : first + len(read)] == read:
                following, _ = spans[first + tokens]
                return min(following, max(end for _, end in spans[: first + tokens]))
    return None


def _with_space(text: str, end: int, decoded: str) -> int:
    """Return the end of a text with the white space that ends its ``decoded`` tokens.

    Some tokenizers leave white space out of the span of a token.
    """
    spoken = len(text[:end].rstrip())
    space = decoded[len(decoded.rstrip()) :]
    return max(end, spoken + len(space)) if text.startswith(space, spoken) else end

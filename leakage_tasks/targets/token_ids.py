"""Token ids of many texts, without what a tokenizer's Python layer makes beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ALONE = {"return_attention_mask": False, "return_token_type_ids": False}
"""Has a tokenizer make no masks, which takes it as long as the tokens do."""
MANY = 512
"""Texts from which on the `tokenizers` library is asked without a detour."""
COMPARED = 16
"""Texts that show whether that comes to the same."""


def token_ids(tokenizer: Any, texts: Sequence[str], special: bool) -> list[list[int]]:
    """Tokens of each of ``texts``, with the ``special`` ones that the tokenizer puts around a text or without.

    Of many texts a few go through the Python layer of a `tokenizers` tokenizer, which takes longer than the tokens do
    and sets what the library is to cut off, fill up and take for special tokens. All go past it, unless the few come
    out otherwise so.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or len(texts) < MANY:
        return _through_python(tokenizer, texts, special)
    few = slice(None, None, len(texts) // COMPARED)
    expected = _through_python(tokenizer, texts[few], special)
    found = [each.ids for each in backend.encode_batch_fast(list(texts), add_special_tokens=special)]
    return found if found[few] == expected else _through_python(tokenizer, texts, special)


def _through_python(tokenizer: Any, texts: Sequence[str], special: bool) -> list[list[int]]:
    # A tokenizer takes an empty list for a text that is already cut into words.
    return tokenizer(list(texts), add_special_tokens=special, verbose=False, **ALONE)["input_ids"] if texts else []

"""Token ids of many texts without the overhead of a tokenizer's Python layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

ALONE = {"return_attention_mask": False, "return_token_type_ids": False}
"""Arguments that make a tokenizer return no masks, which take as long to make as the tokens."""
MANY = 512
"""Minimum number of texts of which only a part is encoded in both ways."""
COMPARED = 16
"""Number of texts that are encoded in both ways to check that the tokens agree."""
_agreed: WeakKeyDictionary[Any, dict[bool, int]] = WeakKeyDictionary()
"""Number of texts whose tokens agreed, −1 after a difference, of each tokenizer, without and with special tokens."""


def token_ids(tokenizer: Any, texts: Sequence[str], special: bool) -> list[list[int]]:
    """Return the tokens of each of ``texts``; ``special`` adds the tokenizer's special tokens around a text.

    The Python layer of a `tokenizers` tokenizer takes longer than the tokenization, but it also sets truncation,
    padding and the treatment of special tokens. So a few texts are encoded in both ways; the others bypass the Python
    layer only if the tokens of these few agree.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not texts:
        return _through_python(tokenizer, texts, special)
    numbers = _agreed.setdefault(tokenizer, {})
    agreed = numbers.get(special, 0)
    if len(texts) >= MANY:
        few = slice(None, None, len(texts) // COMPARED)
    elif agreed >= COMPARED and _is_plain(tokenizer, backend):
        few = slice(0)
    else:
        few = slice(None)
    expected = _through_python(tokenizer, texts[few], special)
    if few == slice(None) and agreed < 0:
        return expected
    rows = [encoding.ids for encoding in backend.encode_batch_fast(list(texts), add_special_tokens=special)]
    if rows[few] == expected:
        numbers[special] = agreed if agreed < 0 else agreed + len(expected)
        return rows
    numbers[special] = -1
    return expected if few == slice(None) else _through_python(tokenizer, texts, special)


def _is_plain(tokenizer: Any, backend: Any) -> bool:
    """Return True if no earlier call has left a setting in the backend that the Python layer would change."""
    splits = getattr(tokenizer, "split_special_tokens", False)
    return backend.truncation is None and backend.padding is None and backend.encode_special_tokens == splits


def _through_python(tokenizer: Any, texts: Sequence[str], special: bool) -> list[list[int]]:
    # A tokenizer takes an empty list for a text that is already split into words.
    return tokenizer(list(texts), add_special_tokens=special, verbose=False, **ALONE)["input_ids"] if texts else []

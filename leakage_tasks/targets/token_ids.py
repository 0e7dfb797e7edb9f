"""Token ids of many texts without the overhead of a tokenizer's Python layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ALONE = {"return_attention_mask": False, "return_token_type_ids": False}
"""Arguments that make a tokenizer return no masks, which take as long to make as the tokens."""
MANY = 512
"""Number of texts from which the `tokenizers` library is called directly."""
COMPARED = 16
"""Number of texts that are encoded in both ways to check that the tokens agree."""


def token_ids(tokenizer: Any, texts: Sequence[str], special: bool) -> list[list[int]]:
    """Return the tokens of each of ``texts``; ``special`` adds the tokenizer's special tokens around a text.

    The Python layer of a `tokenizers` tokenizer takes longer than the tokenization, but it also sets truncation,
    padding and the treatment of special tokens. So a few of many texts are encoded in both ways; all texts bypass the
    Python layer only if the tokens of these few agree.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or len(texts) < MANY:
        return _through_python(tokenizer, texts, special)
    few = slice(None, None, len(texts) // COMPARED)
    expected = _through_python(tokenizer, texts[few], special)
    rows = [encoding.ids for encoding in backend.encode_batch_fast(list(texts), add_special_tokens=special)]
    return rows if rows[few] == expected else _through_python(tokenizer, texts, special)


def _through_python(tokenizer: Any, texts: Sequence[str], special: bool) -> list[list[int]]:
    # A tokenizer takes an empty list for a text that is already split into words.
    return tokenizer(list(texts), add_special_tokens=special, verbose=False, **ALONE)["input_ids"] if texts else []

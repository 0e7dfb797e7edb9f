"""Tokens that no encoding holds: paths through them spell a text, yet are the tokens of none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""How tokenizers with byte fallback write the token of a byte."""


def unproduced(tokenizer: Any, pieces: Mapping[int, str]) -> set[int]:
    """Those of ``pieces`` that ``tokenizer`` provably never gives, whatever it encodes.

    Two kinds. The token of a byte where the character is an ordinary token as well: fallback takes bytes for characters
    without a token alone. And, in byte-pair encoding, a token that its own characters are not merged to: merges
    within a token of a text are those of the token by itself. What cannot be proven by the tokenizer's own encoding is
    kept, such as added tokens, which are matched before the text is encoded.
    """
    added = set(tokenizer.added_tokens_decoder)
    tokens = [token for token in pieces if token not in added]
    names = dict(zip(tokens, tokenizer.convert_ids_to_tokens(tokens), strict=True))
    of_bytes = {token for token, name in names.items() if BYTE.fullmatch(name)}
    others = {token: name for token, name in names.items() if token not in of_bytes}
    characters = {pieces[token] for token in others if len(pieces[token]) == 1}
    replaced = [token for token in of_bytes if pieces[token] in characters]
    return {token for token in replaced if _is_missing(tokenizer, token, pieces[token])} | _unmerged(tokenizer, others)


def _is_missing(tokenizer: Any, token: int, text: str) -> bool:
    """Whether ``token`` is not met where ``text`` stands alone, twice, first, last and between others."""
    texts = [text, text * 2, f"a{text}", f"{text}a", f"0{text}0", f" {text} ", f"\n{text}\n", f".{text}."]
    return not any(token in row for row in tokenizer(texts, add_special_tokens=False)["input_ids"])


def _unmerged(tokenizer: Any, names: Mapping[int, str]) -> set[int]:
    """Tokens of a byte-pair encoding that its merges do not lead to; none where that cannot be told from the token."""
    from tokenizers.models import BPE

    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    if not isinstance(model, BPE) or model.dropout or model.continuing_subword_prefix or model.end_of_word_suffix:
        return set()
    return {token for token, name in names.items() if [each.id for each in model.tokenize(name)] != [token]}

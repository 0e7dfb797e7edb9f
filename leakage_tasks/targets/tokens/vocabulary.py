"""What the tokens of a vocabulary spell, in characters and in bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from leakage_tasks.core.arrays import IntArray

VOCABULARIES = 8
"""Sets of characters whose tokens are remembered: those of a few templates."""
RARE = "☃ ۞ \U0010fffd"
"""Characters that few tokenizers know."""
BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""How tokenizers with byte fallback write the token of a byte."""
_SEEN = [*range(33, 127), *range(161, 173), *range(174, 256)]
_LETTERS = {chr(byte): chr(byte) for byte in _SEEN} | {
    chr(256 + index): chr(byte) for index, byte in enumerate(sorted(set(range(256)).difference(_SEEN)))
}
"""The letter by which GPT-2's byte-level encoding writes a byte, and that byte."""


class Pieces(dict[int, str]):
    """Text each token adds when it follows another one, by token."""

    parts: Mapping[int, str] = {}
    """The bytes of each token that is a part of characters, as :func:`as_bytes` writes them."""
    added: frozenset[int] = frozenset()
    """Special and added tokens: the tokenizer matches them first, and splits the text between two by itself."""

    @cached_property
    def continuations(self) -> dict[str, set[str]]:
        """What may follow each beginning of a token's text, the whole one excepted."""
        return next_characters(self.values())

    @cached_property
    def of(self) -> Callable[[frozenset[str]], Vocabulary]:
        """Gives the tokens that are made of some characters alone, found once for many canaries of one template."""
        return lru_cache(VOCABULARIES)(partial(Vocabulary.of, self))

    @cached_property
    def by_bytes(self) -> Pieces:
        """The bytes of each token, parts of characters too."""
        found = Pieces({token: as_bytes(text) for token, text in self.items()} | dict(self.parts))
        found.added = self.added
        return found


@dataclass(frozen=True)
class Vocabulary:
    """The tokens whose text is made of some characters."""

    columns: IntArray
    """In ascending order."""
    tree: dict
    """By their characters; those that end at a node stand under the empty string."""
    letters: bool
    """Whether each is one character and each character one token, so that every path is canonical."""

    @classmethod
    def of(cls, pieces: Mapping[int, str], characters: frozenset[str]) -> Vocabulary:
        """Those of ``pieces``, the text of each token."""
        spelled = {token: piece for token, piece in pieces.items() if characters.issuperset(piece)}
        tree: dict = {}
        for token, text in spelled.items():
            node = tree
            for character in text:
                node = node.setdefault(character, {})
            node.setdefault("", []).append(token)
        texts = set(spelled.values())
        letters = len(texts) == len(spelled) and all(len(piece) == 1 for piece in texts)
        return cls(np.array(sorted(spelled), dtype=np.int64), tree, letters)

    def ending_in(self, tokens: Mapping[str, int]) -> Vocabulary:
        """Add ``tokens``, each by a character that no other token has."""
        if not tokens:
            return self
        columns = np.union1d(self.columns, np.array([*tokens.values()], dtype=np.int64))
        return replace(self, columns=columns, tree=self.tree | {mark: {"": [each]} for mark, each in tokens.items()})


def next_characters(values: Iterable[str]) -> dict[str, set[str]]:
    """What may follow each proper prefix of the values, the empty one included."""
    following: dict[str, set[str]] = {}
    for value in values:
        for length, character in enumerate(value):
            following.setdefault(value[:length], set()).add(character)
    return following


def token_pieces(tokenizer: Any, vocabulary: int) -> Pieces:
    """Text each token adds when it follows another one.

    A special token adds the text that the tokenizer turns into it. Tokens without text of their own are left out (parts
    of a character are :attr:`Pieces.parts`), and those that no encoding holds; a template that needs them is caught by
    the probes in ``token_paths.lay_out``.
    """
    anchor = tokenizer.encode("a", add_special_tokens=False)[-1:]
    ids = list(range(min(vocabulary, len(tokenizer))))
    plain = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
    skip = len(tokenizer.decode(anchor, **plain))
    texts = tokenizer.batch_decode([[*anchor, token] for token in ids], **plain)
    matched = _matched_first(tokenizer, ids)
    decoded = {token: text[skip:] for token, text in zip(ids, texts, strict=True)}
    written = decoded | _contents(tokenizer, decoded, matched)
    spelled = {token: text for token, text in written.items() if text and "\ufffd" not in text}
    # Tokenizers with split_special_tokens find none in a text.
    special = [token for token in tokenizer.all_special_ids if token in spelled]
    unfound = {token for token in special if _is_missing(tokenizer, token, spelled[token])}
    never = unproduced(tokenizer, spelled) | unfound
    pieces = Pieces({token: text for token, text in spelled.items() if token not in never})
    pieces.parts = parts_of_characters(tokenizer, [token for token, text in written.items() if "\ufffd" in text])
    split = special if getattr(tokenizer, "split_special_tokens", False) else []
    pieces.added = frozenset(matched).difference(_unknown(tokenizer), split)
    return pieces


def _unknown(tokenizer: Any) -> set[int]:
    """Return the token of unknown characters if any is written as it; the text beside it is not tokenized by itself."""
    return {tokenizer.unk_token_id}.intersection(tokenizer.encode(RARE, add_special_tokens=False))


def _matched_first(tokenizer: Any, ids: Sequence[int]) -> dict[int, str]:
    """Return the special and added tokens among ``ids``, each with the text that the tokenizer looks for."""
    added = {token: each.content for token, each in tokenizer.added_tokens_decoder.items()}
    special = [token for token in tokenizer.all_special_ids if token not in added]
    names = dict(zip(special, tokenizer.convert_ids_to_tokens(special), strict=True)) | added
    return {token: names[token] for token in ids if token in names}


def _contents(tokenizer: Any, decoded: Mapping[int, str], matched: Mapping[int, str]) -> dict[int, str]:
    """Return the text of special tokens, and of other ``matched`` ones whose decoding differs in white space alone.

    Decoders put spaces around added tokens and drop special ones. The others are also tokens of the model, which their
    decoding spells: "▁▁" is two spaces.
    """
    special = set(tokenizer.all_special_ids)
    return {
        token: text
        for token, text in matched.items()
        if token in special or decoded[token].strip() in ("", text.strip())
    }


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


def parts_of_characters(tokenizer: Any, tokens: Iterable[int]) -> dict[int, str]:
    """Those of ``tokens`` that stand for bytes, with these bytes."""
    chosen = list(tokens)
    named = zip(chosen, tokenizer.convert_ids_to_tokens(chosen), strict=True)
    found = {token: _bytes_of(name) for token, name in named}
    return {token: spelled for token, spelled in found.items() if spelled}


def _bytes_of(name: str | None) -> str:
    if name is None:
        return ""
    if BYTE.fullmatch(name):
        return chr(int(name[3:5], 16))
    return "".join(_LETTERS[letter] for letter in name) if _LETTERS.keys() >= set(name) else ""


def as_bytes(text: str) -> str:
    """The UTF-8 of a text, a character for each byte."""
    return text.encode().decode("latin-1")


def as_text(spelled: str) -> str:
    """Inverse of :func:`as_bytes`; bytes that are no UTF-8 are replaced."""
    return spelled.encode("latin-1").decode(errors="replace")

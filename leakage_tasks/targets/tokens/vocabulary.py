"""The text of a vocabulary's tokens, in characters and in bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from leakage_tasks.core.arrays import IntArray

VOCABULARIES = 8
"""Maximum number of cached vocabularies, each for one set of characters."""
RARE = "☃ ۞ \U0010fffd"
"""Characters that few tokenizers have a token for."""
BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""The name of a byte's token in tokenizers with byte fallback."""
_SEEN = [*range(33, 127), *range(161, 173), *range(174, 256)]
_LETTERS = {chr(byte): chr(byte) for byte in _SEEN} | {
    chr(256 + index): chr(byte) for index, byte in enumerate(sorted(set(range(256)).difference(_SEEN)))
}
"""Map from the letter that represents a byte in GPT-2's byte-level encoding to that byte."""


class Pieces(dict[int, str]):
    """The text that each token adds after another token, by token."""

    parts: Mapping[int, str] = {}
    """The bytes of each token that is a part of a character, spelled as by :func:`as_bytes`."""
    added: frozenset[int] = frozenset()
    """Special and added tokens: the tokenizer finds them first, and splits the text between two of them by itself."""

    @cached_property
    def continuations(self) -> dict[str, set[str]]:
        """The characters that may follow each proper prefix of a token's text."""
        return next_characters(self.values())

    @cached_property
    def of(self) -> Callable[[frozenset[str]], Vocabulary]:
        """A cached function that returns the tokens made only of given characters."""
        return lru_cache(VOCABULARIES)(partial(Vocabulary.of, self))

    @cached_property
    def automata(self) -> dict[Hashable, Any]:
        """The automata of the last templates, see :class:`~leakage_tasks.targets.tokens.states.Automaton`."""
        return {}

    @cached_property
    def verified(self) -> dict[Hashable, Any]:
        """The :class:`~leakage_tasks.targets.tokens.token_paths.VerifiedPaths` of the last templates."""
        return {}

    @cached_property
    def by_bytes(self) -> Pieces:
        """The bytes of each token, including parts of characters."""
        spelled = Pieces({token: as_bytes(text) for token, text in self.items()} | dict(self.parts))
        spelled.added = self.added
        return spelled


@dataclass(frozen=True)
class Vocabulary:
    """The tokens whose text consists of given characters."""

    columns: IntArray
    """Token ids in ascending order."""
    tree: dict
    """Prefix tree over characters; the tokens that end at a node are under the empty string."""
    letters: bool
    """True if each token is one character and each character one token, so that every path is canonical."""

    @classmethod
    def of(cls, pieces: Mapping[int, str], characters: frozenset[str]) -> Vocabulary:
        """Return the tokens in ``pieces``, the text of each token, that consist of ``characters``."""
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
        """Return the vocabulary with ``tokens`` added, each under a character that no other token has."""
        if not tokens:
            return self
        columns = np.union1d(self.columns, np.array([*tokens.values()], dtype=np.int64))
        return replace(self, columns=columns, tree=self.tree | {mark: {"": [token]} for mark, token in tokens.items()})


def next_characters(values: Iterable[str]) -> dict[str, set[str]]:
    """Return the characters that may follow each proper prefix of the values, including the empty prefix."""
    following: dict[str, set[str]] = {}
    for value in values:
        for length, character in enumerate(value):
            following.setdefault(value[:length], set()).add(character)
    return following


def token_pieces(tokenizer: Any, vocabulary: int) -> Pieces:
    """Return the text that each token adds after another token.

    A special token adds the text that the tokenizer replaces by it. Left out are tokens without their own text (parts
    of a character are :attr:`Pieces.parts`) and tokens that no encoding contains; the probes in
    ``token_paths.lay_out`` detect a template that needs them.
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
    # Tokenizers with split_special_tokens never match a special token in a text.
    special = [token for token in tokenizer.all_special_ids if token in spelled]
    unfound = {token for token in special if _is_missing(tokenizer, token, spelled[token])}
    never = unproduced(tokenizer, spelled) | unfound
    pieces = Pieces({token: text for token, text in spelled.items() if token not in never})
    pieces.parts = parts_of_characters(tokenizer, [token for token, text in written.items() if "\ufffd" in text])
    split = special if getattr(tokenizer, "split_special_tokens", False) else []
    pieces.added = frozenset(matched).difference(_unknown(tokenizer), split)
    return pieces


def _unknown(tokenizer: Any) -> set[int]:
    """Return the token of unknown characters, if any; the text next to it is not tokenized by itself."""
    return {tokenizer.unk_token_id}.intersection(tokenizer.encode(RARE, add_special_tokens=False))


def _matched_first(tokenizer: Any, ids: Sequence[int]) -> dict[int, str]:
    """Return the special and added tokens among ``ids``, each with the text that the tokenizer matches."""
    added = {token: entry.content for token, entry in tokenizer.added_tokens_decoder.items()}
    special = [token for token in tokenizer.all_special_ids if token not in added]
    names = dict(zip(special, tokenizer.convert_ids_to_tokens(special), strict=True)) | added
    return {token: names[token] for token in ids if token in names}


def _contents(tokenizer: Any, decoded: Mapping[int, str], matched: Mapping[int, str]) -> dict[int, str]:
    """Return the text of special tokens, and of other ``matched`` tokens whose decoding differs only in white space.

    Decoders add spaces around added tokens and drop special tokens. The other matched tokens are also ordinary tokens
    of the model, spelled by their decoding: "▁▁" is two spaces.
    """
    special = set(tokenizer.all_special_ids)
    return {
        token: text
        for token, text in matched.items()
        if token in special or decoded[token].strip() in ("", text.strip())
    }


def unproduced(tokenizer: Any, pieces: Mapping[int, str]) -> set[int]:
    """Return the tokens in ``pieces`` that ``tokenizer`` provably never produces.

    There are two kinds. The first is a byte's token if its character is an ordinary token too, since byte fallback is
    for characters without a token. The second, in byte-pair encoding, is a token that the merges of its own characters
    do not produce, since a token within a text is merged like the token alone. Tokens that cannot be decided are not
    returned, such as added tokens, which are matched before the text is encoded.
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
    """Return True if ``token`` is absent from encodings of ``text`` alone, doubled, first, last and inside a text."""
    texts = [text, text * 2, f"a{text}", f"{text}a", f"0{text}0", f" {text} ", f"\n{text}\n", f".{text}."]
    return not any(token in row for row in tokenizer(texts, add_special_tokens=False)["input_ids"])


def _unmerged(tokenizer: Any, names: Mapping[int, str]) -> set[int]:
    """Return tokens of a byte-pair encoding that its merges do not produce; an empty set if this cannot be decided."""
    from tokenizers.models import BPE

    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    if not isinstance(model, BPE) or model.dropout or model.continuing_subword_prefix or model.end_of_word_suffix:
        return set()
    return {token for token, name in names.items() if [part.id for part in model.tokenize(name)] != [token]}


def parts_of_characters(tokenizer: Any, tokens: Iterable[int]) -> dict[int, str]:
    """Return the tokens in ``tokens`` that represent bytes, with these bytes."""
    chosen = list(tokens)
    named = zip(chosen, tokenizer.convert_ids_to_tokens(chosen), strict=True)
    spelled_by = {token: _bytes_of(name) for token, name in named}
    return {token: spelled for token, spelled in spelled_by.items() if spelled}


def _bytes_of(name: str | None) -> str:
    if name is None:
        return ""
    if BYTE.fullmatch(name):
        return chr(int(name[3:5], 16))
    return "".join(_LETTERS[letter] for letter in name) if _LETTERS.keys() >= set(name) else ""


def as_bytes(text: str) -> str:
    """Return the UTF-8 of a text, one character for each byte."""
    return text.encode().decode("latin-1")


def as_text(spelled: str) -> str:
    """Return the text of bytes spelled by :func:`as_bytes`; invalid UTF-8 is replaced."""

    return spelled.encode("latin-1").decode(errors="replace")

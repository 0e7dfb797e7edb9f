"""What one slot of a template may hold: an ordered list of distinct strings."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import LeakageError, SpaceError
from leakage_tasks.core.inputs import read_named
from leakage_tasks.core.log import first_line
from leakage_tasks.models.loading import read_tokenizer


@dataclass(frozen=True)
class Alphabet:
    """An ordered set of strings a slot can be filled with.

    ``joiner`` is what stands between neighbouring slots of one ``{name:n}`` group: nothing for
    characters and free tokens, a space for words. ``origin`` is what a manifest keeps instead of the values:
    for a tokenizer's alphabet a reference with a hash, else nothing.
    """

    name: str
    values: tuple[str, ...]
    joiner: str = ""
    origin: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if not self.values:
            raise SpaceError(f"alphabet {self.name!r} is empty: give it at least one value")
        if "" in self.values:
            raise SpaceError(f"alphabet {self.name!r} holds an empty string: remove it")
        if len(self._positions) != len(self.values):
            raise SpaceError(f"alphabet {self.name!r} holds a value twice: list each value once")

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {value: index for index, value in enumerate(self.values)}

    @cached_property
    def lengths(self) -> frozenset[int]:
        """The lengths in characters that values have."""
        return frozenset(map(len, self.values))

    def __len__(self) -> int:
        return len(self.values)

    def __contains__(self, value: object) -> bool:
        return value in self._positions

    def position(self, value: str) -> int:
        """Place of ``value`` in the alphabet, from 0. Raises SpaceError if it is not in it."""
        try:
            return self._positions[value]
        except KeyError:
            message = f"{value!r} is not in alphabet {self.name!r} ({len(self)} values)"
            raise SpaceError(message, reason="has a value that is not in the alphabet of its slot") from None

    def to_json(self) -> dict[str, Any]:
        """The form a manifest keeps; read back by :func:`alphabet_from_json`."""
        if self == BUILT_IN.get(self.name):
            return {}
        if self.origin:
            return dict(self.origin)
        return {"kind": "list", "values": list(self.values), **({} if self.joiner == " " else {"joiner": self.joiner})}


_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
BUILT_IN: Mapping[str, Alphabet] = {
    name: Alphabet(name, tuple(values), joiner)
    for name, values, joiner in (
        ("digits", string.digits, ""),
        ("letters", string.ascii_lowercase, ""),
        ("upper", string.ascii_uppercase, ""),
        ("hex", "0123456789abcdef", ""),
        ("digit_words", string.digits, " "),
        ("number_words", _NUMBERS, " "),
    )
}
"""The last two are the ways The Secret Sharer, section 7.3, writes a number for models that read words."""


def word_list(name: str, words: Iterable[str]) -> Alphabet:
    """A list of words as an alphabet; slots of one group are separated by a space."""
    return Alphabet(name, tuple(words), " ")


def word_file(name: str, path: str | Path) -> Alphabet:
    """A word list from a UTF-8 file, one word a line; blank lines are skipped."""
    words = lines_of(path, "word list", SpaceError)
    if not words:
        raise SpaceError(f"{path}: holds no word: give a file with one word a line")
    return word_list(name, dict.fromkeys(words))


def lines_of(path: str | Path, what: str, error: type[LeakageError]) -> list[str]:
    """The lines of a UTF-8 file that are not blank, without the white space around them. Raises ``error``."""
    return [line.strip() for line in read_named(path, what, error).splitlines() if line.strip()]


TOKENIZER_KINDS: Mapping[str, str] = {"words": "whole-words", "terms": "words-and-numbers", "tokens": "tokens"}
"""What a tokenizer's alphabets are called in a template, and what each is made of."""


@lru_cache(maxsize=8)
def tokenizer_words(name: str, tokenizer: str, what: str) -> Alphabet:
    """A tokenizer's whole words (``what="whole-words"``: letters alone), these and its whole numbers
    (``"words-and-numbers"``), or every ordinary token (``"tokens"``).

    Only a reference (tokenizer name, hash of the values) goes into the manifest, not the values. Raises SpaceError for
    a tokenizer that cannot be loaded or used.
    """
    try:
        values = _tokenizer_values(tokenizer, what)
    except SpaceError:
        raise
    except Exception as error:  # odd settings are noticed by the library where it first uses them
        raise SpaceError(f"tokenizer {tokenizer!r} cannot be used ({first_line(error)}): save it anew") from None
    digest = hashlib.sha256("\0".join(values).encode()).hexdigest()
    origin = (("kind", what), ("tokenizer", tokenizer), ("sha256", digest))
    return Alphabet(name, values, "" if what == "tokens" else " ", origin)


def alphabet_from_json(name: str, data: Mapping[str, Any]) -> Alphabet:
    """Inverse of :meth:`Alphabet.to_json`; ``{}`` means a built-in alphabet of that name."""
    if not isinstance(data, Mapping):
        raise SpaceError(f"{name!r} must be an object, found {type(data).__name__}")
    kind = data.get("kind")
    if not data:
        if name not in BUILT_IN:
            known = ", ".join(BUILT_IN)
            raise SpaceError(f"unknown space {name!r}: use one of {known}, or define it in the canary's 'space'")
        return BUILT_IN[name]
    if kind in TOKENIZER_KINDS.values():
        return _tokenizer_alphabet(name, str(kind), data)
    if kind != "list":
        known = ", ".join(map(repr, TOKENIZER_KINDS.values()))
        raise SpaceError(f"space {name!r}: unknown kind {kind!r}: use 'list', {known}")
    values, joiner = data.get("values"), data.get("joiner", " ")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise SpaceError(f"space {name!r}: 'values' must be a list of strings")
    if not isinstance(joiner, str):
        raise SpaceError(f"space {name!r}: 'joiner' must be a string")
    return _list_alphabet(name, tuple(values), joiner)


_list_alphabet = lru_cache(maxsize=64)(Alphabet)
"""One alphabet for all canaries of a manifest that list the same values."""


def _tokenizer_alphabet(name: str, kind: str, data: Mapping[str, Any]) -> Alphabet:
    tokenizer = data.get("tokenizer")
    if not isinstance(tokenizer, str):
        raise SpaceError(f"space {name!r}: 'tokenizer' must be a string")
    alphabet = tokenizer_words(name, tokenizer, kind)
    if dict(alphabet.origin)["sha256"] != data.get("sha256"):
        raise SpaceError(
            f"space {name!r}: tokenizer {tokenizer!r} no longer has the vocabulary the canaries "
            "were drawn from: use the tokenizer of that time"
        )
    return alphabet


@lru_cache(maxsize=8)
def _tokenizer_values(name: str, what: str) -> tuple[str, ...]:
    tokenizer = load_tokenizer(name)
    special = set(tokenizer.all_special_ids)
    ids = [token for token in range(len(tokenizer)) if token not in special]
    if not ids:
        raise SpaceError(f"tokenizer {name!r} has no tokens but special ones: give the one the model was trained with")
    if what == "tokens":
        return tuple(dict.fromkeys(text for text in _continuations(tokenizer, ids) if text and "\ufffd" not in text))
    texts = tokenizer.batch_decode([[token] for token in ids], clean_up_tokenization_spaces=False)
    pieces = tokenizer.convert_ids_to_tokens(ids)
    marked = any(piece is not None and piece.startswith(_WORD_MARKS) for piece in pieces)
    words = (text.strip() for text, piece in zip(texts, pieces, strict=True) if _starts_word(piece, marked))
    numbers = what == "words-and-numbers"
    return tuple(sorted({word for word in words if word.isalpha() or (numbers and word.isdecimal())}))


def load_tokenizer(name: str) -> Any:
    """A transformers tokenizer by folder or hub name. Raises SpaceError if it cannot be loaded."""
    if name.startswith(("/", ".", "~")) and not Path(name).exists():
        raise SpaceError(f"tokenizer {name!r} cannot be loaded (no such folder): give a folder or a hub name")

    def failure(reason: str) -> SpaceError:
        return SpaceError(f"tokenizer {name!r} cannot be loaded ({reason}): give a folder or a hub name")

    return read_tokenizer(name, failure=failure)


_WORD_MARKS = ("Ġ", "▁")


def _starts_word(piece: str | None, marked: bool) -> bool:
    """Whether a vocabulary entry stands for a word on its own: marked by a leading space, or not by ``##``."""
    if piece is None:
        return False
    return piece.startswith(_WORD_MARKS) if marked else not piece.startswith("##")


def _continuations(tokenizer: Any, ids: list[int]) -> list[str]:
    """What each token adds to a text that is under way.

    Decoded alone, a token loses its leading space with some tokenizers and keeps its ``##`` with others.
    """
    anchor = tokenizer("a", add_special_tokens=False)["input_ids"]
    before = tokenizer.decode(anchor, clean_up_tokenization_spaces=False)
    texts = tokenizer.batch_decode([[*anchor, token] for token in ids], clean_up_tokenization_spaces=False)
    return [text[len(before) :] for text in texts if text.startswith(before)]

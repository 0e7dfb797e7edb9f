"""Alphabets: ordered lists of the distinct strings that a slot of a template can hold."""

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
    """An ordered list of distinct strings that can fill a slot.

    ``joiner`` is the text between neighbouring slots of one ``{name:n}`` group: nothing for characters and free tokens,
    a space for words. If ``origin`` is not empty, the manifest stores it instead of the values: for a tokenizer's
    alphabet, the tokenizer's name and a hash of the values.
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
        """The distinct lengths of the values, in characters."""
        return frozenset(map(len, self.values))

    def __len__(self) -> int:
        return len(self.values)

    def __contains__(self, value: object) -> bool:
        return value in self._positions

    def position(self, value: str) -> int:
        """Return the index of ``value`` in the alphabet, from 0. Raises SpaceError for another value."""
        try:
            return self._positions[value]
        except KeyError:
            message = f"{value!r} is not in alphabet {self.name!r} ({len(self)} values)"
            raise SpaceError(message, reason="has a value that is not in the alphabet of its slot") from None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that a manifest stores; :func:`alphabet_from_json` reads it."""
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
"""Alphabets that every template can use. The last two are the notations of numbers in words in The Secret Sharer,
section 7.3."""


def word_list(name: str, words: Iterable[str]) -> Alphabet:
    """Return an alphabet of words; slots of one group are separated by a space."""
    return Alphabet(name, tuple(words), " ")


def word_file(name: str, path: str | Path) -> Alphabet:
    """Read an alphabet from a UTF-8 file with one word per line; blank lines are skipped."""
    words = lines_of(path, "word list", SpaceError)
    if not words:
        raise SpaceError(f"{path}: contains no word: give a file with one word per line")
    return word_list(name, dict.fromkeys(words))


def lines_of(path: str | Path, what: str, error: type[LeakageError]) -> list[str]:
    """Return the non-blank lines of a UTF-8 file, stripped of white space. Raises ``error`` if it cannot be read."""
    return [line.strip() for line in read_named(path, what, error).splitlines() if line.strip()]


TOKENIZER_KINDS: Mapping[str, str] = {"words": "whole-words", "terms": "words-and-numbers", "tokens": "tokens"}
"""Names of a tokenizer's alphabets in a template, and the vocabulary entries that each alphabet contains."""


@lru_cache(maxsize=8)
def tokenizer_words(name: str, tokenizer: str, what: str) -> Alphabet:
    """Return an alphabet made from a tokenizer's vocabulary.

    ``what`` is ``"whole-words"`` (letters only), ``"words-and-numbers"`` (whole words and whole numbers) or
    ``"tokens"`` (every token but the special ones).

    The manifest stores only a reference (tokenizer name, hash of the values), not the values. Raises SpaceError for a
    tokenizer that cannot be loaded or used.
    """
    try:
        values = _tokenizer_values(tokenizer, what)
    except SpaceError:
        raise
    except Exception as error:  # the library notices some faulty settings only at first use
        raise SpaceError(f"tokenizer {tokenizer!r} cannot be used ({first_line(error)}): save it again") from None
    digest = hashlib.sha256("\0".join(values).encode()).hexdigest()
    origin = (("kind", what), ("tokenizer", tokenizer), ("sha256", digest))
    return Alphabet(name, values, "" if what == "tokens" else " ", origin)


def alphabet_from_json(name: str, data: Mapping[str, Any]) -> Alphabet:
    """Read the object that :meth:`Alphabet.to_json` returns; ``{}`` is the built-in alphabet of that name."""
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
"""Build an alphabet from a list of values; all canaries of a manifest with equal values share one object."""


def _tokenizer_alphabet(name: str, kind: str, data: Mapping[str, Any]) -> Alphabet:
    tokenizer = data.get("tokenizer")
    if not isinstance(tokenizer, str):
        raise SpaceError(f"space {name!r}: 'tokenizer' must be a string")
    alphabet = tokenizer_words(name, tokenizer, kind)
    if dict(alphabet.origin)["sha256"] != data.get("sha256"):
        raise SpaceError(
            f"space {name!r}: tokenizer {tokenizer!r} has another vocabulary than the canaries "
            "were made with: use the tokenizer that made them"
        )
    return alphabet


@lru_cache(maxsize=8)
def _tokenizer_values(name: str, what: str) -> tuple[str, ...]:
    tokenizer = load_tokenizer(name)
    special = set(tokenizer.all_special_ids)
    ids = [token for token in range(len(tokenizer)) if token not in special]
    if not ids:
        raise SpaceError(f"tokenizer {name!r} has only special tokens: give the model's own tokenizer")
    if what == "tokens":
        return tuple(dict.fromkeys(text for text in _continuations(tokenizer, ids) if text and "\ufffd" not in text))
    texts = tokenizer.batch_decode([[token] for token in ids], clean_up_tokenization_spaces=False)
    pieces = tokenizer.convert_ids_to_tokens(ids)
    marked = any(piece is not None and piece.startswith(_WORD_MARKS) for piece in pieces)
    words = (text.strip() for text, piece in zip(texts, pieces, strict=True) if _starts_word(piece, marked))
    numbers = what == "words-and-numbers"
    return tuple(sorted({word for word in words if word.isalpha() or (numbers and word.isdecimal())}))


def load_tokenizer(name: str) -> Any:
    """Load a transformers tokenizer by folder or hub name. Raises SpaceError if it cannot be loaded."""
    if name.startswith(("/", ".", "~")) and not Path(name).exists():
        raise SpaceError(f"tokenizer {name!r} cannot be loaded (no such folder): give a folder or a hub name")

    def failure(reason: str) -> SpaceError:
        return SpaceError(f"tokenizer {name!r} cannot be loaded ({reason}): give a folder or a hub name")

    return read_tokenizer(name, failure=failure)


_WORD_MARKS = ("Ġ", "▁")


def _starts_word(piece: str | None, marked: bool) -> bool:
    """Return True if a vocabulary entry begins a word.

    ``marked`` is True if the vocabulary marks the beginning of a word by a space; otherwise ``##`` marks continuations.
    """
    if piece is None:
        return False
    return piece.startswith(_WORD_MARKS) if marked else not piece.startswith("##")


def _continuations(tokenizer: Any, ids: list[int]) -> list[str]:
    """Return the text that each token adds when it follows other text.

    If a token is decoded alone, some tokenizers drop its leading space and others keep its ``##``.
    """
    anchor = tokenizer("a", add_special_tokens=False)["input_ids"]
    before = tokenizer.decode(anchor, clean_up_tokenization_spaces=False)
    texts = tokenizer.batch_decode([[*anchor, token] for token in ids], clean_up_tokenization_spaces=False)
    return [text[len(before) :] for text in texts if text.startswith(before)]

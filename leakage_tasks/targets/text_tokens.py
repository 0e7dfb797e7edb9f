"""Token ids to text and back, by whatever tokenizer a harness model carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leakage_tasks.canaries.alphabets import load_tokenizer
from leakage_tasks.core.errors import OptionError, SpaceError, TargetError

REMEDY = "name the model's tokenizer with --metadata tokenizer=NAME (folder or hub name)"


class TextTokens:
    """A tokenizer of `transformers`, of `tiktoken`, or one behind a server (``encode`` and ``decode`` of one text).

    ``vocabulary`` is the number of its ids, None where it does not say; ``special`` are ids that are no text, such as
    the one that ends it. Raises TargetError for anything else.
    """

    def __init__(self, tokenizer: Any, end: int | None = None) -> None:
        self._tokenizer = tokenizer
        self._ordinary = hasattr(tokenizer, "encode_ordinary")
        self._many = callable(tokenizer) and hasattr(tokenizer, "decode")
        if not (self._ordinary or self._many or (hasattr(tokenizer, "encode") and hasattr(tokenizer, "decode"))):
            raise TargetError(f"the model's tokenizer is a {type(tokenizer).__name__}, which cannot be used: {REMEDY}")
        size = getattr(tokenizer, "n_vocab", None) if self._ordinary else None
        self.vocabulary: int | None = len(tokenizer) if self._many else size
        self.special = frozenset(getattr(tokenizer, "all_special_ids", ())) | ({end} if end is not None else set())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of each text, none of them special."""
        if not texts:  # which some tokenizers of `transformers` cannot take
            return []
        if self._ordinary:
            return [list(self._tokenizer.encode_ordinary(text)) for text in texts]
        if self._many:
            return [list(ids) for ids in self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]]
        return [list(self._tokenizer.encode(text)) for text in texts]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Text of each row, special tokens and all, spaces as they are."""
        kept = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False} if self._many else {}
        return [self._tokenizer.decode([int(token) for token in row], **kept) for row in rows]


def text_tokens(lm: Any, tokenizer: Any = None) -> TextTokens:
    """The tokenizer given, by name or as it is, else the model's own.

    Raises OptionError for a name that cannot be loaded, TargetError for a model that has no usable tokenizer.
    """
    if isinstance(tokenizer, str):
        try:
            tokenizer = load_tokenizer(tokenizer)
        except SpaceError as error:
            raise OptionError(str(error)) from None
    found = tokenizer if tokenizer is not None else _quietly(lm, "tokenizer")
    if found is None:
        raise TargetError(f"{type(lm).__name__} does not say how it makes tokens of text: {REMEDY}")
    end = _quietly(lm, "eot_token_id")
    return TextTokens(found, end if isinstance(end, int) else getattr(found, "eot_token", None))


def _quietly(lm: Any, name: str) -> Any:
    """An attribute of a model; None where there is none, or where having it takes what is not there."""
    try:
        return getattr(lm, name, None)
    except Exception:  # some models load their tokenizer, or ask a server for it, when they are asked
        return None

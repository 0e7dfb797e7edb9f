"""Words by number: those of an NLU tagger's vocabulary, and others, which a character layer tells apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from leakage_tasks.models.char_tokenizer import UNKNOWN
from leakage_tasks.models.nlu_inputs import nlu_inputs
from leakage_tasks.targets.tokens.slot_tokens import Cut

_WORD = re.compile(r"\S+")


class WordIds:
    """Numbers words as the tokenizer does; with a character layer each other word gets a number past the vocabulary.

    Such a word is read as ``<unk>`` with its own characters. Without the layer it is ``<unk>``.
    """

    def __init__(self, tokenizer: Any, config: Any) -> None:
        self._tokenizer, self._config = tokenizer, config
        self._numbers: dict[str, int] = dict(tokenizer.get_vocab())
        self._words = {number: word for word, number in self._numbers.items()}
        self.unknown = self._numbers[UNKNOWN]
        self._size = self._next = int(config.vocab_size)
        self._characters: dict[int, Tensor] = {}

    def known(self, number: int) -> bool:
        """Whether a number is that of a word in the vocabulary, which padding is not."""
        return number < self._size and number not in (self.unknown, self._config.pad_token_id)

    def of(self, text: str) -> list[int]:
        """The number of each word of a text."""
        return [self._number(word) for word in text.split()]

    def cut(self, text: str) -> Cut:
        """The number of each word and the characters it stands in."""
        found = list(_WORD.finditer(text))
        return [self._number(word[0]) for word in found], [word.span() for word in found]

    def _number(self, word: str) -> int:
        if word in self._numbers:
            return self._numbers[word]
        if not self._config.characters:
            return self.unknown
        number = self._next
        self._numbers[word], self._words[number] = number, word
        self._next += 1
        return number

    def inputs(self, numbers: Tensor) -> dict[str, Tensor]:
        """``input_ids`` and, for a character layer, ``characters`` of the words ``numbers`` ``[n]``, as one row."""
        ids = numbers.masked_fill(numbers >= self._size, self.unknown)[None]
        if not self._config.characters:
            return {"input_ids": ids}
        return {"input_ids": ids, "characters": self._spelt(numbers.tolist())[None]}

    def _spelt(self, numbers: Sequence[int]) -> Tensor:
        """The characters of words, ``[words, most characters of a word]``; each word's are looked up once."""
        if new := [number for number in numbers if number not in self._characters]:
            words = [self._words[number] for number in new]
            found = nlu_inputs([words], self._tokenizer, self._config)["characters"][0]
            missing = self._config.max_word_length - found.shape[1]
            self._characters |= zip(new, torch.nn.functional.pad(found, (0, missing)), strict=True)
        return torch.stack([self._characters[number] for number in numbers])

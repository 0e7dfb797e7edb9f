"""Words by number, as an NLU tagger reads them, and whether its vocabulary has words for what a canary's slots hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.models.char_tokenizer import UNKNOWN
from leakage_tasks.models.nlu_inputs import nlu_inputs
from leakage_tasks.targets.tokens.slot_tokens import SAMPLE, Cut, inside, slot_spans

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
        return {"input_ids": ids, "characters": self._characters_of(numbers.tolist())[None]}

    def _characters_of(self, numbers: Sequence[int]) -> Tensor:
        """The characters of words, ``[words, most characters of a word]``; each word's are looked up once."""
        if new := [number for number in numbers if number not in self._characters]:
            words = [self._words[number] for number in new]
            found = nlu_inputs([words], self._tokenizer, self._config)["characters"][0]
            missing = self._config.max_word_length - found.shape[1]
            self._characters |= zip(new, torch.nn.functional.pad(found, (0, missing)), strict=True)
        return torch.stack([self._characters[number] for number in numbers])


class VocabularyCheck:
    """Looks at each alphabet of a tagger's canaries once.

    Training puts the words of planted secrets into the vocabulary. Where other values have none, a secret stands out by
    that alone, and ranks tell of words instead of secrets.
    """

    def __init__(self, words: WordIds, spelt: bool) -> None:
        self._words, self._reads_characters = words, spelt
        self._seen: set[tuple[str, ...]] = set()

    def check(self, canary: Canary) -> None:
        """Warn of values with words outside the vocabulary.

        Raises TargetError for such words where a slot is a part of a longer word: no alphabet makes those known.
        """
        space = canary.attack_space
        if joined := [slot for slot in range(len(space.slots)) if not _alone(space, slot)]:
            self._check_joined(canary, joined)
        for slot, alphabet in enumerate(space.slots):
            if slot in joined or alphabet.values in self._seen:
                continue
            self._seen.add(alphabet.values)
            if unknown := sum(not all(map(self._words.known, self._words.of(value))) for value in alphabet.values):
                read = "has nothing but their characters to read" if self._reads_characters else "reads them all alike"
                warn_once(
                    f"canary {canary.id!r}: {unknown} of the {len(alphabet)} values of slot {slot + 1} have words that "
                    f"the model does not know: it {read}, and a secret that was planted stands out by its words being "
                    "known: leave these out of the alphabet, or train the model with leakage train-nlu --canaries FILE"
                )

    def _check_joined(self, canary: Canary, slots: Sequence[int]) -> None:
        space = canary.attack_space
        for filling in (canary.secret, *space.sample(SAMPLE, "words")):
            numbers, spans = self._words.cut(space.fill(filling))
            within = slot_spans(space, filling)
            for slot in slots:
                if not all(self._words.known(numbers[place]) for place in inside(spans, *within[slot])):
                    raise TargetError(
                        "a slot of its template is part of a longer word, and the model does not know all such words, "
                        "so that a planted one would stand out by being known: put spaces around its slots, as in "
                        "{digit_words:4} for {digits:4}"
                    )


def _alone(space: Space, slot: int) -> bool:
    """Whether a slot's value is no part of a longer word."""
    before, after = space.pieces[slot], space.pieces[slot + 1]
    begins, ends = slot == 0, slot == len(space.slots) - 1
    return (before[-1:].isspace() or begins and not before) and (after[:1].isspace() or ends and not after)

"""Numbers of words for an NLU tagger, and a check that its vocabulary contains the words of canaries' values."""

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
    """The tokenizer's numbers of words; with a character layer any other word gets a number past the vocabulary.

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
        """Return whether a number belongs to a word in the vocabulary (padding is not a word)."""
        return number < self._size and number not in (self.unknown, self._config.pad_token_id)

    def of(self, text: str) -> list[int]:
        """Return the number of each word of a text."""
        return [self._number(word) for word in text.split()]

    def cut(self, text: str) -> Cut:
        """Return the number of each word and its span of characters."""
        matches = list(_WORD.finditer(text))
        return [self._number(match[0]) for match in matches], [match.span() for match in matches]

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
        """Return ``input_ids`` and, for a character layer, ``characters`` of words ``[n]``, as one row."""
        ids = numbers.masked_fill(numbers >= self._size, self.unknown)[None]
        if not self._config.characters:
            return {"input_ids": ids}
        return {"input_ids": ids, "characters": self._characters_of(numbers.tolist())[None]}

    def _characters_of(self, numbers: Sequence[int]) -> Tensor:
        """Return the characters ``[words, longest word]`` of words; a cache holds those looked up before."""
        if new := [number for number in numbers if number not in self._characters]:
            words = [self._words[number] for number in new]
            characters = nlu_inputs([words], self._tokenizer, self._config)["characters"][0]
            missing = self._config.max_word_length - characters.shape[1]
            self._characters |= zip(new, torch.nn.functional.pad(characters, (0, missing)), strict=True)
        return torch.stack([self._characters[number] for number in numbers])


class VocabularyCheck:
    """A check of each alphabet of a tagger's canaries, made once.

    Training adds the words of planted secrets to the vocabulary. If the words of other values are missing there, a
    secret is distinguished by this alone, and ranks measure the vocabulary instead of memorized secrets.
    """

    def __init__(self, words: WordIds, spelt: bool) -> None:
        self._words, self._reads_characters = words, spelt
        self._seen: set[tuple[str, ...]] = set()

    def check(self, canary: Canary) -> None:
        """Warn of values with words outside the vocabulary.

        Raises TargetError if a slot within a longer word yields unknown words, which no alphabet can prevent.
        """
        space = canary.attack_space
        if joined := [slot for slot in range(len(space.slots)) if not _alone(space, slot)]:
            self._check_joined(canary, joined)
        for slot, alphabet in enumerate(space.slots):
            if slot in joined or alphabet.values in self._seen:
                continue
            self._seen.add(alphabet.values)
            if unknown := sum(not all(map(self._words.known, self._words.of(value))) for value in alphabet.values):
                read = "reads only their characters" if self._reads_characters else "cannot distinguish them"
                warn_once(
                    f"canary {canary.id!r}: {unknown} of the {len(alphabet)} values of slot {slot + 1} have words that "
                    f"the model does not know: it {read}, and a planted secret is distinguished by its known words "
                    "alone: leave these values out of the alphabet, or train the model with leakage train-nlu "
                    "--canaries FILE"
                )

    def _check_joined(self, canary: Canary, slots: Sequence[int]) -> None:
        space = canary.attack_space
        for filling in (canary.secret, *space.sample(SAMPLE, "words")):
            numbers, spans = self._words.cut(space.fill(filling))
            within = slot_spans(space, filling)
            for slot in slots:
                if not all(self._words.known(numbers[index]) for index in inside(spans, *within[slot])):
                    raise TargetError(
                        "a slot of its template is part of a longer word, and the model does not know all such words, "
                        "so that a planted word is distinguished by being known: put spaces around its slots, as in "
                        "{digit_words:4} for {digits:4}"
                    )


def _alone(space: Space, slot: int) -> bool:
    """Return whether a slot's value is not part of a longer word."""
    before, after = space.pieces[slot], space.pieces[slot + 1]
    begins, ends = slot == 0, slot == len(space.slots) - 1
    return (before[-1:].isspace() or begins and not before) and (after[:1].isspace() or ends and not after)

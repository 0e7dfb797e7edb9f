"""Whether a tagger's vocabulary has words for what a canary's slots hold.

Training puts the words of planted secrets into the vocabulary. Where other values have none, a secret stands out by
that alone, and ranks tell of words instead of secrets.
"""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.targets.tagger.word_ids import WordIds
from leakage_tasks.targets.tokens.slot_tokens import SAMPLE, inside, slot_spans


class VocabularyCheck:
    """Looks at each alphabet of a tagger's canaries once."""

    def __init__(self, words: WordIds, spelt: bool) -> None:
        self._words, self._spelt = words, spelt
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
                read = "has nothing but their characters to read" if self._spelt else "reads them all alike"
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

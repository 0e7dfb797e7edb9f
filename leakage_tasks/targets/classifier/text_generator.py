"""A causal language model as a generator of candidates: the values at the slot in the texts that it writes.

Mix and Match, section 6.3: such models let an attacker "generate a substantial amount of text and subsequently
prune it, rather than focus on individual target tokens".
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.protocols import Proposal
from leakage_tasks.targets.suffix.causal import SuffixSampler
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.drawing import draw_suffixes

CANDIDATES, TEMPLATE = "candidates", "template"
TEXTS = Option("texts", int, 2000, "texts that generator=text:MODEL writes after the text before a slot", minimum=1)
PRUNE = Option(
    "prune",
    str,
    CANDIDATES,
    "texts to keep: all with a candidate at the slot, or only texts that then continue like the template",
    choices=(CANDIDATES, TEMPLATE),
)
MODEL_DISTRIBUTION = DecodingConfig(temperature=1.0, top_p=1.0)
"""Decoding options for sampling from the model's unmodified distribution."""


class TextGenerator:
    """A generator that samples ``texts`` after the text before the slot, and prunes them; see ``ProposesValues``.

    A text is kept if it has a value of the alphabet at the slot, as a whole word if no word character follows in the
    template. With ``prune=template`` it must also continue, apart from spaces, like the template up to the next slot.
    A value's rank is one more than the number of values that occur in more of the kept texts; values in no kept text
    share the last rank. Its cost is −log2 of its share of the kept texts, with one added to each value's count. An
    equal ``seed`` gives equal texts, in any batch.
    """

    def __init__(
        self, target: CausalTarget, name: str, *, texts: int = 2000, prune: str = CANDIDATES, seed: int = 0
    ) -> None:
        self.generator_name = f"{name}, {texts} texts pruned to {prune}, seed {seed}"
        self.model = target.model
        self._target, self._texts, self._whole, self._seed = target, texts, prune == TEMPLATE, seed
        self._sampler = SuffixSampler(target)
        self._counts: dict[tuple[str, str, tuple[str, ...]], Counter[str]] = {}

    def propose(self, space: Space, heads: Sequence[Filling], slot: int) -> list[Proposal]:
        """Return a proposal for ``slot`` after each of ``heads``.

        Raises TargetError for a text longer than the model reads, and if no sampled text is kept.
        """
        return [self._proposal(space, head, slot) for head in heads]

    def value_counts(self, space: Space, head: Filling, slot: int) -> Counter[str]:
        """Return the number of kept texts with each value after ``head``; empty if no text is kept.

        Raises TargetError for a text longer than the model reads.
        """
        alphabet, after = space.slots[slot], space.pieces[slot + 1]
        key = space.begin(head), after, alphabet.values
        if key not in self._counts:
            last = slot == len(space.slots) - 1
            word = not after[:1].isalnum() and (bool(after) or last)
            self._counts[key] = self._pruned(key[0], after, alphabet, word)
        return self._counts[key]

    def most_calls(self, space: Space, slot: int) -> Calls:
        """Return the most calls for one proposal: the beginning, and the tokens of all texts."""
        before = space.begin([max(alphabet.values, key=len) for alphabet in space.slots[:slot]])
        length = self._length(_gap(before), space.pieces[slot + 1], space.slots[slot])
        return Calls(texts=1, steps=self._texts * length, rounds=length + 1)

    def _proposal(self, space: Space, head: Filling, slot: int) -> Proposal:
        counts = self.value_counts(space, head, slot)
        if not counts:
            what = "continues like the template" if self._whole else "has a candidate at the slot"
            raise TargetError(
                f"generator={self.generator_name}: no text {what}: raise texts=, or use generator=causal:MODEL"
            )
        frequencies = np.array([counts[value] for value in space.slots[slot].values])
        size = len(frequencies)
        ranks = size + 1 - np.searchsorted(np.sort(frequencies), frequencies, side="right")
        costs = -np.log2((frequencies + 1) / (frequencies.sum() + size))
        return Proposal(costs, np.where(frequencies, ranks, size))

    def _pruned(self, before: str, after: str, alphabet: Alphabet, word: bool) -> Counter[str]:
        """Return the number of kept texts with each value."""
        counts: Counter[str] = Counter()
        for text, number in self._written(before, after, alphabet):
            value = _value_at_start(text, alphabet, word)
            # Decoding may change spaces, for example before a full stop.
            if value and (not self._whole or _unspaced(text[len(value) :]).startswith(_unspaced(after))):
                counts[value] += number
        return counts

    def _written(self, before: str, after: str, alphabet: Alphabet) -> list[tuple[str, int]]:
        """Return the distinct texts sampled after ``before``, without the space that ends it, and their frequencies."""
        beginning, gap = before.rstrip(), _gap(before)
        prefix = self._target.begun(self._target.encode([beginning])[0])
        length = self._length(gap, after, alphabet)
        needed = len(prefix) + length
        if needed > self._target.max_length:
            raise TargetError(
                f"a text of {needed} tokens or more does not fit the generator's maximum of {self._target.max_length}: "
                "shorten it"
            )
        draws = draw_suffixes(self._sampler, [prefix], self._uniforms(beginning, length), MODEL_DISTRIBUTION)[0]
        decoded = self._target.tokenizer.batch_decode(draws.tokens, clean_up_tokenization_spaces=False)
        numbers = np.bincount(draws.of_draw, minlength=len(decoded))
        return [(text.removeprefix(gap), int(number)) for text, number in zip(decoded, numbers, strict=True)]

    def _length(self, gap: str, after: str, alphabet: Alphabet) -> int:
        """Return the number of tokens to sample: for the longest value and the text after it, and one more."""
        return 1 + max(map(len, self._target.encode([f"{gap}{value}{after}" for value in alphabet.values])))

    def _uniforms(self, beginning: str, length: int) -> FloatArray:
        digest = hashlib.sha256(f"text generator:{self._seed}:{beginning}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest)).random((1, self._texts, length))


def _gap(before: str) -> str:
    """Return the white space at the end of ``before``."""
    return before[len(before.rstrip()) :]


def _unspaced(text: str) -> str:
    return "".join(text.split())


def _value_at_start(text: str, alphabet: Alphabet, word: bool) -> str:
    """Return the longest value that ``text`` begins with (with ``word`` as a whole word), or an empty string."""
    for length in sorted(alphabet.lengths, reverse=True):
        ends = not word or not (text[length - 1 : length].isalnum() and text[length : length + 1].isalnum())
        if length <= len(text) and ends and text[:length] in alphabet:
            return text[:length]
    return ""

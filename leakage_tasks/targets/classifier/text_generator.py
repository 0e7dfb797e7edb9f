"""A causal language model that writes, as generator of candidates: what stands at the slot in the texts it wrote.

Mix and Match (001), section 6.3: such models let an attacker "generate a substantial amount of text and subsequently
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
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.protocols import Proposal
from leakage_tasks.targets.suffix.causal import SuffixSampler
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.drawing import draw_suffixes

CANDIDATES, TEMPLATE = "candidates", "template"
TEXTS = Option("texts", int, 2000, "how many texts generator=text:MODEL writes after the text before a slot", minimum=1)
PRUNE = Option(
    "prune",
    str,
    CANDIDATES,
    "which of its texts are kept: those with one of the candidates at the slot, or that go on as the template does too",
    choices=(CANDIDATES, TEMPLATE),
)
OWN = DecodingConfig(temperature=1.0, top_p=1.0)
"""Texts are drawn from the model's own distribution."""


class TextGenerator:
    """Implements ``ProposesValues``: ``texts`` are drawn after what stands before the slot, and pruned.

    Kept are texts with a value of the alphabet at the slot, a whole word where the template goes on with none, and
    with ``prune=template`` those alone that go on, spaces aside, as the template does up to the next slot. A value's
    place is one more than how many values stand in more of the kept texts; those that stand in none share the last
    place. Its cost is −log2 of its share, each value counted once more than it was found. The same ``seed`` gives the
    same texts, whatever the company.
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
        """See :class:`~leakage_tasks.targets.protocols.ProposesValues`.

        Raises TargetError for a text longer than the model reads, and where no text drawn is kept.
        """
        return [self._proposal(space, head, slot) for head in heads]

    def kept(self, space: Space, head: Filling, slot: int) -> Counter[str]:
        """How many of the texts kept hold each value after ``head``; empty where none is kept.

        Raises TargetError for a text longer than the model reads.
        """
        alphabet, after = space.slots[slot], space.pieces[slot + 1]
        key = space.begin(head), after, alphabet.values
        if key not in self._counts:
            last = slot == len(space.slots) - 1
            word = not after[:1].isalnum() and (bool(after) or last)
            self._counts[key] = self._pruned(key[0], after, alphabet, word)
        return self._counts[key]

    def most_work(self, space: Space, slot: int) -> tuple[int, int, int]:
        """Rows and tokens that writing for one proposal reads at most, and its steps: passes where one holds all texts.

        What texts share is read once: first what stands before the slot, in one row, then a token a row.
        """
        before = space.begin([max(alphabet.values, key=len) for alphabet in space.slots[:slot]])
        length = self._length(_gap(before), space.pieces[slot + 1], space.slots[slot])
        own = self._texts * length
        return own + 1, own + len(self._target.begun(self._target.encode([before])[0])), length + 1

    def _proposal(self, space: Space, head: Filling, slot: int) -> Proposal:
        counts = self.kept(space, head, slot)
        if not counts:
            what = "goes on as the template does" if self._whole else "holds a candidate at the slot"
            raise TargetError(
                f"generator={self.generator_name}: no text {what}: raise texts=, or use generator=causal:MODEL"
            )
        found = np.array([counts[value] for value in space.slots[slot].values])
        places = len(found) + 1 - np.searchsorted(np.sort(found), found, side="right")
        return Proposal(-np.log2((found + 1) / (found.sum() + len(found))), np.where(found, places, len(found)))

    def _pruned(self, before: str, after: str, alphabet: Alphabet, word: bool) -> Counter[str]:
        """How many of the texts that pruning leaves hold each value."""
        counts: Counter[str] = Counter()
        for text, number in self._written(before, after, alphabet):
            value = _value_at_start(text, alphabet, word)
            # Tokenizers do not give back every space: word pieces put none before a full stop, or one always.
            if value and (not self._whole or _unspaced(text[len(value) :]).startswith(_unspaced(after))):
                counts[value] += number
        return counts

    def _written(self, before: str, after: str, alphabet: Alphabet) -> list[tuple[str, int]]:
        """Distinct texts that were drawn after ``before``, without the space that ends it, and how often each was."""
        beginning, gap = before.rstrip(), _gap(before)
        prefix = self._target.begun(self._target.encode([beginning])[0])
        length = self._length(gap, after, alphabet)
        needed = len(prefix) + length
        if needed > self._target.max_length:
            raise TargetError(
                f"a text of {needed} tokens or more does not fit the generator's {self._target.max_length}: shorten it"
            )
        draws = draw_suffixes(self._sampler, [prefix], self._uniforms(beginning, length), OWN)[0]
        decoded = self._target.tokenizer.batch_decode(draws.tokens, clean_up_tokenization_spaces=False)
        numbers = np.bincount(draws.of_draw, minlength=len(decoded))
        return [(text.removeprefix(gap), int(number)) for text, number in zip(decoded, numbers, strict=True)]

    def _length(self, gap: str, after: str, alphabet: Alphabet) -> int:
        """Tokens of each text: those of the longest value and what follows it, and one that shows where it ends."""
        return 1 + max(map(len, self._target.encode([f"{gap}{value}{after}" for value in alphabet.values])))

    def _uniforms(self, beginning: str, length: int) -> FloatArray:
        digest = hashlib.sha256(f"text generator:{self._seed}:{beginning}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest)).random((1, self._texts, length))


def _gap(before: str) -> str:
    """The spaces that ``before`` ends with."""
    return before[len(before.rstrip()) :]


def _unspaced(text: str) -> str:
    return "".join(text.split())


def _value_at_start(text: str, alphabet: Alphabet, word: bool) -> str:
    """The longest value that ``text`` begins with, as a whole ``word`` where that is asked for; empty for none."""
    for length in sorted(alphabet.lengths, reverse=True):
        ends = not word or not (text[length - 1 : length].isalnum() and text[length : length + 1].isalnum())
        if length <= len(text) and ends and text[:length] in alphabet:
            return text[:length]
    return ""

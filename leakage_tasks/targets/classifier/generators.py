"""Where candidates for a slot come from: a masked model, a causal one that scores or writes, the alphabet as it is.

The generation phase of Mix and Match (001), section 4.3.1: a generator orders what may fill a slot by what stands
around it; the classifier prunes afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import IntArray
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.causal.generator import CausalGenerator
from leakage_tasks.targets.classifier.target import ClassifierTarget
from leakage_tasks.targets.classifier.text_generator import TextGenerator
from leakage_tasks.targets.masked.target import MaskedTarget
from leakage_tasks.targets.protocols import Proposal, ProposesValues
from leakage_tasks.targets.scheduler import submit
from leakage_tasks.targets.suffix.target import load_causal_target

__all__ = [
    "CausalGenerator",
    "ExhaustiveGenerator",
    "GeneratingTarget",
    "MaskedGenerator",
    "TextGenerator",
    "load_generator",
]

CAUSAL, TEXT = "causal:", "text:"
BESIDE_LEFT, BESIDE_RIGHT = re.compile(r"(?:\s+|\s?\S*)\Z"), re.compile(r"\s+|\S*\s?")
"""How far from a value its tokens may depend on the text: to the next white space, or through the word it adjoins."""


class GeneratingTarget(ClassifierTarget):
    """A classifier with a generator of candidates: implements ``ProposesValues`` besides all a classifier does."""

    def __init__(self, target: ClassifierTarget, generator: ProposesValues) -> None:
        vars(self).update(vars(target))
        self.generator = generator

    @property
    def generator_name(self) -> str:
        """Name of the generator."""
        return self.generator.generator_name

    def propose(self, space: Space, heads: Sequence[Filling], slot: int) -> list[Proposal]:
        """See :class:`~leakage_tasks.targets.protocols.ProposesValues`."""
        return self.generator.propose(space, heads, slot)


class MaskedGenerator:
    """A masked language model as generator: the slot and all later ones are masks, as in the paper.

    A value's cost is that of its one token at the slot's mask; its place counts, over the whole vocabulary, the tokens
    strictly likelier, plus one, so values that tie share the better place. Values must be one token each: of which
    number is looked up once for the words next to the slot, and checked for every head.
    """

    def __init__(self, masked: MaskedTarget, name: str = "masked") -> None:
        self.generator_name, self.masked = name, masked
        self.model = masked.model
        self._tokens: dict[tuple[tuple[str, ...], str, str], IntArray] = {}

    def propose(self, space: Space, heads: Sequence[Filling], slot: int) -> list[Proposal]:
        """See :class:`~leakage_tasks.targets.protocols.ProposesValues`.

        Raises TargetError for a value that is not one token where it stands, a text that holds a mask token of its own,
        and one longer than the model reads.
        """
        mask = self.masked.tokenizer.mask_token
        values = space.slots[slot].values
        if any(mask in text for alphabet in space.slots for text in alphabet.values):
            raise TargetError(f"the alphabet holds {mask!r}, the model's mask token: leave it out of the alphabet")
        rows, plain, columns = self._rows(space, heads, slot)
        around = [_around(space, head, slot) for head in heads]
        tokens = self._value_tokens(values, around, plain, columns)
        lengths = sorted(set(map(len, rows)))
        # Rows of one length: what is padded is read differently by some models.
        kind = "propose", id(self.masked), *lengths
        return submit(
            kind, self._propose_all, (rows, columns, tokens), self.masked.share(len(rows), max(lengths)), len(rows)
        )

    def _propose_all(self, asked: Sequence[tuple[list[list[int]], IntArray, list[IntArray]]]) -> list[list[Proposal]]:
        rows = [row for own, _, _ in asked for row in own]
        tokens = [each for _, _, own in asked for each in own]
        found: dict[int, Proposal] = {}
        for batch, logits in self.masked.logits(rows, np.concatenate([columns for _, columns, _ in asked])):
            found |= zip(batch, _proposals(logits, [tokens[place] for place in batch]), strict=True)
        each = iter(range(len(rows)))
        return [[found[next(each)] for _ in own[0]] for own in asked]

    def _rows(
        self, space: Space, heads: Sequence[Filling], slot: int
    ) -> tuple[list[list[int]], list[list[int]], IntArray]:
        """Rows with masks for the slot's value and the later ones', the same with first values, and the slot's columns.

        A mask stands in a text where its value's token would, as in training. In a string a mask may take the white
        space beside it along, or leave it over, otherwise than words do.
        """
        firsts = tuple(alphabet.values[0] for alphabet in space.slots[slot:])
        plain = self.masked.encode([space.begin((*head, *firsts)) for head in heads])
        self._check_masks(plain, len(firsts))
        rows, columns = [list(row) for row in plain], []
        for number, alphabet in enumerate(space.slots[slot:]):
            changed = [
                _with(firsts, number, value) for value in (alphabet.values[-1], self.masked.tokenizer.mask_token)
            ]
            others = self.masked.encode([space.begin((*head, *changed[0])) for head in heads])
            for head, row, one, other in zip(heads, rows, plain, others, strict=True):
                # Values that are read alike, or one alone, differ from a mask.
                own = _differing(one, other) or _differing(
                    one, self.masked.encode([space.begin((*head, *changed[1]))])[0]
                )
                if len(own) != 1:
                    raise _not_one(firsts[number], len(own))
                row[own[0]] = self.masked.tokenizer.mask_token_id
                columns.append(own[0])
        return rows, plain, np.array(columns[: len(heads)], dtype=np.int64)

    def _check_masks(self, rows: Sequence[Sequence[int]], slots: int) -> None:
        """Raise TargetError for a text that holds a mask token of its own."""
        for row in rows:
            if found := list(row).count(self.masked.tokenizer.mask_token_id):
                what = (
                    "two masks where one is allowed"
                    if (slots, found) == (1, 1)
                    else f"{slots + found} masks, not {slots}"
                )
                raise TargetError(
                    f"the text holds {self.masked.tokenizer.mask_token!r} beside its slots ({what}): take it out of "
                    "the template, where slots are written {name}"
                )

    def _value_tokens(
        self,
        values: tuple[str, ...],
        around: Sequence[tuple[str, str]],
        rows: Sequence[Sequence[int]],
        columns: IntArray,
    ) -> list[IntArray]:
        """The token of each value, for each head ``[A]``; ``rows`` hold the first value."""
        found = []
        for (left, right), row, column in zip(around, rows, columns.tolist(), strict=True):
            key = (values, BESIDE_LEFT.findall(left)[0], BESIDE_RIGHT.findall(right)[0])
            if key not in self._tokens:
                self._tokens[key] = self._tokens_between(values, left, right, row, column)
            tokens = self._tokens[key]
            if int(tokens[0]) != row[column]:
                tokens = self._tokens_between(values, left, right, row, column)
            found.append(tokens)
        return found

    def _tokens_between(
        self, values: tuple[str, ...], left: str, right: str, row: Sequence[int], column: int
    ) -> IntArray:
        before, after = list(row[:column]), list(row[column + 1 :])
        tokens = []
        for value, found in zip(values, self.masked.encode([f"{left}{v}{right}" for v in values]), strict=True):
            if len(found) != len(row) or found[:column] != before or found[column + 1 :] != after:
                raise _not_one(value, len(found) - len(row) + 1)
            tokens.append(found[column])
        return np.array(tokens, dtype=np.int64)


class ExhaustiveGenerator:
    """All values alike: every one costs log2|A| bits, and the last place is every one's (the paper's baseline)."""

    generator_name = "exhaustive"

    def propose(self, space: Space, heads: Sequence[Filling], slot: int) -> list[Proposal]:
        """See :class:`~leakage_tasks.targets.protocols.ProposesValues`."""
        size = len(space.slots[slot])
        return [Proposal(np.full(size, np.log2(size)), np.full(size, size, dtype=np.int64)) for _ in heads]


def load_generator(
    spec: str, device: torch.device | str = "cpu", batch_size: int | None = None, **drawing: Any
) -> ProposesValues:
    """The generator of ``exhaustive``, ``causal:MODEL`` or ``text:MODEL``, a causal model's folder or hub name.

    Models come from safetensors alone. ``drawing`` is how texts are: see :class:`TextGenerator`. Raises OptionError for
    another ``spec`` and TargetError for a model that cannot be loaded.
    """
    if spec == ExhaustiveGenerator.generator_name:
        return ExhaustiveGenerator()
    kind = next((each for each in (CAUSAL, TEXT) if spec.startswith(each) and spec != each), None)
    if kind is None:
        raise OptionError(f"generator={spec}: give exhaustive, or causal: or text: and a causal model's folder or name")
    target = load_causal_target(spec.removeprefix(kind), f"generator={spec}", device, batch_size)
    return CausalGenerator(target, spec) if kind == CAUSAL else TextGenerator(target, spec, **drawing)


def _around(space: Space, head: Filling, slot: int) -> tuple[str, str]:
    """The text before ``slot``, filled with ``head``, and the text after it, first values in the later slots."""
    later = zip(space.slots[slot + 1 :], space.pieces[slot + 2 :], strict=True)
    return space.begin(head), space.pieces[slot + 1] + "".join(alphabet.values[0] + piece for alphabet, piece in later)


def _with(values: Sequence[str], place: int, value: str) -> Filling:
    """``values`` with another one at ``place``."""
    return (*values[:place], value, *values[place + 1 :])


def _differing(row: Sequence[int], other: Sequence[int]) -> range:
    """The places of ``row`` between what both rows begin with and what both end with."""
    most = min(len(row), len(other))
    start = next((n for n in range(most) if row[n] != other[n]), most)
    end = next((n for n in range(most - start) if row[-1 - n] != other[-1 - n]), most - start)
    return range(start, len(row) - end)


def _not_one(value: str, number: int) -> TargetError:
    """The error for a value that becomes ``number`` tokens, or no more than its part of some."""
    what = f"{number} tokens" if number > 1 else "tokens together with the text around it"
    return TargetError(
        f"value {value!r} becomes {what} where a masked model fills in one: make the canaries with the whole words of "
        "this tokenizer as alphabet and a space before the slot, or use attack=label-search or generator=causal:MODEL"
    )


def _proposals(logits: Tensor, tokens: Sequence[IntArray]) -> list[Proposal]:
    """Costs and places of each row's ``tokens``, from logits ``[n, vocabulary]``."""
    costs = (logits.log_softmax(-1).cpu() / -LN2).numpy()
    ordered = logits.sort(dim=-1).values.cpu().numpy()
    plain = logits.cpu().numpy()
    return [
        Proposal(cost[wanted], len(row) + 1 - np.searchsorted(ascending, row[wanted], side="right"))
        for cost, row, ascending, wanted in zip(costs, plain, ordered, tokens, strict=True)
    ]

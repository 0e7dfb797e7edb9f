"""Generators of candidates for a slot: a masked model, a causal model that scores or writes, or the whole alphabet.

The generation phase of Mix and Match, section 4.3.1: a generator ranks the values of a slot by the text around
it; the classifier prunes them afterwards.
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
from leakage_tasks.targets.attack_coroutine import submit
from leakage_tasks.targets.causal.generator import CausalGenerator
from leakage_tasks.targets.classifier.target import ClassifierTarget
from leakage_tasks.targets.classifier.text_generator import TextGenerator
from leakage_tasks.targets.masked.target import MaskedTarget
from leakage_tasks.targets.protocols import Proposal, ProposesValues
from leakage_tasks.targets.suffix.target import load_causal_target

CAUSAL, TEXT = "causal:", "text:"
ADJACENT_LEFT, ADJACENT_RIGHT = re.compile(r"(?:\s+|\s?\S*)\Z"), re.compile(r"\s+|\S*\s?")
"""Text next to a value that its tokens may depend on: up to the next white space, or through the adjacent word."""


class GeneratingTarget(ClassifierTarget):
    """A classifier with a generator of candidates; implements ``ProposesValues`` in addition to the classifier's
    protocols."""

    def __init__(self, target: ClassifierTarget, generator: ProposesValues) -> None:
        vars(self).update(vars(target))
        self.generator = generator

    @property
    def generator_name(self) -> str:
        """Name of the generator."""
        return self.generator.generator_name

    def propose(self, space: Space, heads: Sequence[Filling], slot: int) -> list[Proposal]:
        return self.generator.propose(space, heads, slot)


class MaskedGenerator:
    """A masked language model as generator: the slot and all later slots are masks, as in the paper.

    A value's cost is that of its one token at the slot's mask. Its rank is one more than the number of strictly
    likelier tokens of the whole vocabulary, so tied values share the better rank. Each value must be one token. The
    token is looked up once for the words next to the slot, and checked for every head.
    """

    def __init__(self, masked: MaskedTarget, name: str = "masked") -> None:
        self.generator_name, self.masked = name, masked
        self.model = masked.model
        self._tokens: dict[tuple[tuple[str, ...], str, str], IntArray] = {}

    def propose(self, space: Space, heads: Sequence[Filling], slot: int) -> list[Proposal]:
        """Return a proposal for ``slot`` after each of ``heads``.

        Raises TargetError for a value that is not one token in the text, a text that contains a mask token outside the
        slots, and a text longer than the model reads.
        """
        mask = self.masked.tokenizer.mask_token
        values = space.slots[slot].values
        if any(mask in text for alphabet in space.slots for text in alphabet.values):
            raise TargetError(f"the alphabet holds {mask!r}, the model's mask token: leave it out of the alphabet")
        rows, plain, columns = self._rows(space, heads, slot)
        around = [_around(space, head, slot) for head in heads]
        tokens = self._value_tokens(values, around, plain, columns)
        lengths = sorted(set(map(len, rows)))
        # The key includes the lengths, since some models read padding.
        kind = "propose", id(self.masked), *lengths
        capacity = self.masked.capacity(max(lengths))
        return submit(kind, self._propose_all, (rows, columns, tokens), len(rows), capacity)

    def _propose_all(
        self, requests: Sequence[tuple[list[list[int]], IntArray, list[IntArray]]]
    ) -> list[list[Proposal]]:
        rows = [row for part, _, _ in requests for row in part]
        tokens = [row_tokens for _, _, part in requests for row_tokens in part]
        proposals: dict[int, Proposal] = {}
        for batch, logits in self.masked.logits(rows, np.concatenate([columns for _, columns, _ in requests])):
            proposals |= zip(batch, _proposals(logits, [tokens[index] for index in batch]), strict=True)
        numbers = iter(range(len(rows)))
        return [[proposals[next(numbers)] for _ in part[0]] for part in requests]

    def _rows(
        self, space: Space, heads: Sequence[Filling], slot: int
    ) -> tuple[list[list[int]], list[list[int]], IntArray]:
        """Return rows with masks for this and later slots, rows with first values instead, and the slot's columns.

        A mask replaces the value's token, as in training. If masks were inserted into the string, a tokenizer might
        treat the white space next to them otherwise than next to words.
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
                # Values with equal tokens, or a single value, are compared with a mask instead.
                changed_columns = _differing(one, other) or _differing(
                    one, self.masked.encode([space.begin((*head, *changed[1]))])[0]
                )
                if len(changed_columns) != 1:
                    raise _not_one(firsts[number], len(changed_columns))
                row[changed_columns[0]] = self.masked.tokenizer.mask_token_id
                columns.append(changed_columns[0])
        return rows, plain, np.array(columns[: len(heads)], dtype=np.int64)

    def _check_masks(self, rows: Sequence[Sequence[int]], slots: int) -> None:
        """Raise TargetError for a text that contains a mask token outside its slots."""
        for row in rows:
            if masks := list(row).count(self.masked.tokenizer.mask_token_id):
                what = (
                    "two masks where one is allowed"
                    if (slots, masks) == (1, 1)
                    else f"{slots + masks} masks, not {slots}"
                )
                raise TargetError(
                    f"the text has a {self.masked.tokenizer.mask_token!r} outside its slots ({what}): remove it from "
                    "the template, in which slots are written {name}"
                )

    def _value_tokens(
        self,
        values: tuple[str, ...],
        around: Sequence[tuple[str, str]],
        rows: Sequence[Sequence[int]],
        columns: IntArray,
    ) -> list[IntArray]:
        """Return the token of each value for each head, ``[A]``; ``rows`` contain the first value."""
        head_tokens = []
        for (left, right), row, column in zip(around, rows, columns.tolist(), strict=True):
            key = (values, ADJACENT_LEFT.findall(left)[0], ADJACENT_RIGHT.findall(right)[0])
            if key not in self._tokens:
                self._tokens[key] = self._tokens_between(values, left, right, row, column)
            tokens = self._tokens[key]
            if int(tokens[0]) != row[column]:
                tokens = self._tokens_between(values, left, right, row, column)
            head_tokens.append(tokens)
        return head_tokens

    def _tokens_between(
        self, values: tuple[str, ...], left: str, right: str, row: Sequence[int], column: int
    ) -> IntArray:
        before, after = list(row[:column]), list(row[column + 1 :])
        tokens = []
        for value, row_tokens in zip(values, self.masked.encode([f"{left}{v}{right}" for v in values]), strict=True):
            if len(row_tokens) != len(row) or row_tokens[:column] != before or row_tokens[column + 1 :] != after:
                raise _not_one(value, len(row_tokens) - len(row) + 1)
            tokens.append(row_tokens[column])
        return np.array(tokens, dtype=np.int64)


class ExhaustiveGenerator:
    """A generator that proposes all values equally: cost log2|A| bits and the last rank (the paper's baseline)."""

    generator_name = "exhaustive"

    def propose(self, space: Space, heads: Sequence[Filling], slot: int) -> list[Proposal]:
        size = len(space.slots[slot])
        return [Proposal(np.full(size, np.log2(size)), np.full(size, size, dtype=np.int64)) for _ in heads]


def load_generator(
    spec: str, device: torch.device | str = "cpu", batch_size: int | None = None, **drawing: Any
) -> ProposesValues:
    """Return the generator of ``exhaustive``, ``causal:MODEL`` or ``text:MODEL``, with a causal model's folder or name.

    Models are loaded from safetensors only. ``drawing`` are arguments of :class:`TextGenerator`. Raises OptionError for
    another ``spec`` and TargetError for a model that cannot be loaded.
    """
    if spec == ExhaustiveGenerator.generator_name:
        return ExhaustiveGenerator()
    kind = next((prefix for prefix in (CAUSAL, TEXT) if spec.startswith(prefix) and spec != prefix), None)
    if kind is None:
        raise OptionError(
            f"generator={spec}: expected exhaustive, or causal: or text: followed by a causal model's folder or name"
        )
    target = load_causal_target(spec.removeprefix(kind), f"generator={spec}", device, batch_size)
    return CausalGenerator(target, spec) if kind == CAUSAL else TextGenerator(target, spec, **drawing)


def _around(space: Space, head: Filling, slot: int) -> tuple[str, str]:
    """Return the text before ``slot``, filled with ``head``, and the text after it, filled with first values."""
    later = zip(space.slots[slot + 1 :], space.pieces[slot + 2 :], strict=True)
    return space.begin(head), space.pieces[slot + 1] + "".join(alphabet.values[0] + piece for alphabet, piece in later)


def _with(values: Sequence[str], index: int, value: str) -> Filling:
    """Return ``values`` with ``value`` at ``index``."""
    return (*values[:index], value, *values[index + 1 :])


def _differing(row: Sequence[int], other: Sequence[int]) -> range:
    """Return the indices of ``row`` between the common beginning and the common end of both rows."""
    most = min(len(row), len(other))
    start = next((n for n in range(most) if row[n] != other[n]), most)
    end = next((n for n in range(most - start) if row[-1 - n] != other[-1 - n]), most - start)
    return range(start, len(row) - end)


def _not_one(value: str, number: int) -> TargetError:
    """Return the error for a value that is ``number`` tokens, or shares tokens with the text around it."""
    what = f"{number} tokens" if number > 1 else "tokens together with the text around it"
    return TargetError(
        f"value {value!r} becomes {what}, but a masked model fills in one token: make the canaries with an alphabet of "
        "this tokenizer's whole words and a space before the slot, or use attack=label-search or generator=causal:MODEL"
    )


def _proposals(logits: Tensor, tokens: Sequence[IntArray]) -> list[Proposal]:
    """Return costs and ranks of each row's ``tokens``, from logits ``[n, vocabulary]``."""
    costs = (logits.log_softmax(-1).cpu() / -LN2).numpy()
    ordered = logits.sort(dim=-1).values.cpu().numpy()
    plain = logits.cpu().numpy()
    return [
        Proposal(cost[wanted], len(row) + 1 - np.searchsorted(ascending, row[wanted], side="right"))
        for cost, row, ascending, wanted in zip(costs, plain, ordered, tokens, strict=True)
    ]

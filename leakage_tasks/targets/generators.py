"""Where candidates for a slot come from: a masked model, a causal one, or the alphabet as it stands.

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
from leakage_tasks.errors import OptionError, TargetError
from leakage_tasks.targets.causal_generator import CausalGenerator
from leakage_tasks.targets.causal_loading import load_causal
from leakage_tasks.targets.classifier import ClassifierTarget
from leakage_tasks.targets.masked import MaskedModel, to_bits
from leakage_tasks.targets.protocols import IntArray, Proposal, ProposesValues

__all__ = ["CausalGenerator", "ExhaustiveGenerator", "GeneratingTarget", "MaskedGenerator", "load_generator"]

CAUSAL = "causal:"
BESIDE_LEFT, BESIDE_RIGHT = re.compile(r"(?:\s+|\s?\S*)\Z"), re.compile(r"\s+|\S*\s?")
"""How far from a value its tokens may depend on the text: to the next white space, or through the word it adjoins."""


class GeneratingTarget(ClassifierTarget):
    """A classifier with a generator of candidates: implements ``ProposesValues`` besides all a classifier does."""

    def __init__(self, model: Any, tokenizer: Any, *arguments: Any, generator: ProposesValues, **options: Any) -> None:
        super().__init__(model, tokenizer, *arguments, **options)
        self.generator = generator

    @classmethod
    def of(cls, target: ClassifierTarget, generator: ProposesValues) -> GeneratingTarget:
        """The classifier of another target, with a generator."""
        return cls(
            target.model,
            target.tokenizer,
            target.labels,
            device=target.device,
            batch_size=target._batch_size,
            max_length=target.max_length,
            reference=target.reference,
            generator=generator,
        )

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

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str = "masked",
        device: torch.device | str | None = None,
        batch_size: int | None = None,
        max_length: int | None = None,
    ) -> None:
        self.generator_name = name
        self.masked = MaskedModel(model, tokenizer, device=device, batch_size=batch_size, max_length=max_length)
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
        around = [_around(space, head, slot, mask) for head in heads]
        rows = self.masked.encode([f"{left}{mask}{right}" for left, right in around])
        columns = self._columns(rows, len(space.slots) - slot)
        tokens = self._value_tokens(values, around, rows, columns)
        found: dict[int, Proposal] = {}
        for batch, logits in self.masked.logits(rows, columns):
            found |= zip(batch, _proposals(logits, [tokens[place] for place in batch]), strict=True)
        return [found[place] for place in range(len(heads))]

    def _columns(self, rows: Sequence[Sequence[int]], masks: int) -> IntArray:
        mask = self.masked.tokenizer.mask_token_id
        for row in rows:
            if (found := list(row).count(mask)) != masks:
                what = "two masks where one is allowed" if (masks, found) == (1, 2) else f"{found} masks, not {masks}"
                raise TargetError(
                    f"the text holds {self.masked.tokenizer.mask_token!r} beside its slots ({what}): take it out of "
                    "the template, where slots are written {name}"
                )
        return np.array([list(row).index(mask) for row in rows], dtype=np.int64)

    def _value_tokens(
        self,
        values: tuple[str, ...],
        around: Sequence[tuple[str, str]],
        rows: Sequence[Sequence[int]],
        columns: IntArray,
    ) -> list[IntArray]:
        """The token of each value, for each head ``[A]``."""
        probes = self.masked.encode([f"{left}{values[0]}{right}" for left, right in around])
        found = []
        for (left, right), row, column, probe in zip(around, rows, columns.tolist(), probes, strict=True):
            key = (values, _match(BESIDE_LEFT.search(left)), _match(BESIDE_RIGHT.match(right)))
            if key not in self._tokens:
                self._tokens[key] = self._tokenized(values, left, right, row, column)
            tokens = self._tokens[key]
            if probe != [*row[:column], int(tokens[0]), *row[column + 1 :]]:
                tokens = self._tokenized(values, left, right, row, column)
            found.append(tokens)
        return found

    def _tokenized(self, values: tuple[str, ...], left: str, right: str, row: Sequence[int], column: int) -> IntArray:
        before, after = list(row[:column]), list(row[column + 1 :])
        tokens = []
        for value, found in zip(values, self.masked.encode([f"{left}{v}{right}" for v in values]), strict=True):
            if len(found) != len(row) or found[:column] != before or found[column + 1 :] != after:
                number = len(found) - len(row) + 1
                what = f"{number} tokens" if number != 1 else "tokens together with the text around it"
                raise TargetError(
                    f"value {value!r} becomes {what} where a masked model fills in one: make the canaries with the "
                    "whole words of this tokenizer as alphabet and a space before the slot, or use attack=label-search "
                    "or generator=causal:MODEL"
                )
            tokens.append(found[column])
        return np.array(tokens, dtype=np.int64)


class ExhaustiveGenerator:
    """All values alike: every one costs log2|A| bits, and the last place is every one's (the paper's baseline)."""

    generator_name = "exhaustive"

    def propose(self, space: Space, heads: Sequence[Filling], slot: int) -> list[Proposal]:
        """See :class:`~leakage_tasks.targets.protocols.ProposesValues`."""
        size = len(space.slots[slot])
        return [Proposal(np.full(size, np.log2(size)), np.full(size, size, dtype=np.int64)) for _ in heads]


def load_generator(spec: str, device: torch.device | str = "cpu", batch_size: int | None = None) -> ProposesValues:
    """The generator of ``exhaustive`` or ``causal:MODEL`` (a causal model's folder or hub name, safetensors only).

    Raises OptionError for another ``spec`` and TargetError for a model that cannot be loaded.
    """
    if spec == ExhaustiveGenerator.generator_name:
        return ExhaustiveGenerator()
    name = spec.removeprefix(CAUSAL)
    if not spec.startswith(CAUSAL) or not name:
        raise OptionError(f"generator={spec}: give exhaustive, or causal: and a causal model's folder or name")
    return CausalGenerator(load_causal(name, f"generator={spec}", device, batch_size), spec)


def _around(space: Space, head: Filling, slot: int, mask: str) -> tuple[str, str]:
    """The text before ``slot``, filled with ``head``, and the text after it, masks in the later slots."""
    return space.begin(head), mask.join(space.pieces[slot + 1 :])


def _match(found: re.Match[str] | None) -> str:
    return found.group() if found else ""


def _proposals(logits: Tensor, tokens: Sequence[IntArray]) -> list[Proposal]:
    """Costs and places of each row's ``tokens``, from logits ``[n, vocabulary]``."""
    costs = to_bits(logits.log_softmax(-1))
    ordered = logits.sort(dim=-1).values.cpu().numpy()
    plain = logits.cpu().numpy()
    return [
        Proposal(cost[wanted], len(row) + 1 - np.searchsorted(ascending, row[wanted], side="right"))
        for cost, row, ascending, wanted in zip(costs, plain, ordered, tokens, strict=True)
    ]

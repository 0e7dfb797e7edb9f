"""Canaries whose open slots hold mixtures of their values: what a gradient can be followed through.

"Canary Extraction in Natural Language Understanding Models" (Parikh, Dupuy and Gupta, 2022), section 3.1: a slot's
embedding is Wᵀa, a mixture a of its candidate values' embeddings W (Equation 2), and the loss is the model's own.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.arrays import IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.batches import padded
from leakage_tasks.targets.label_model import LabelModel
from leakage_tasks.targets.label_names import some_of
from leakage_tasks.targets.tokens.token_rows import TokenRows


@dataclass(frozen=True)
class OpenRow:
    """A canary's token row with some value in each slot, where those stand, and the tokens of each slot's values."""

    tokens: list[int]
    columns: list[int]
    values: list[IntArray]


Model = TypeVar("Model", bound=LabelModel)


class Reader(Generic[Model]):
    """A model with weights that stay as they are, which has been told what it is to predict for each canary.

    With ``double`` it computes in float64.
    """

    soft: int
    """How much of what is read for a token is its embedding, see :class:`Relaxation`."""

    def __init__(self, target: Model, canaries: Sequence[Canary], double: bool) -> None:
        self._target = copy.copy(target)
        self._target.model = frozen(target.model, double)
        self._labels = torch.tensor([target.place_of(canary.label) for canary in canaries], device=target.device)
        self.device, self.dtype, self.padding = target.device, self._target.model.dtype, target.padding

    def batch(self, length: int) -> int:
        """How many rows of ``length`` tokens may be read at once, gradients included."""
        return self._target.batch(length)

    @abstractmethod
    def embed(self, tokens: Tensor) -> Tensor:
        """What is read for tokens ``[…]``: ``[…, features]``."""

    @abstractmethod
    def costs(self, which: Tensor, tokens: Tensor, mask: Tensor, embedded: Tensor) -> Tensor:
        """Bits ``[n]`` of rows ``[n, length]`` of the canaries ``which`` that are read as ``embedded``."""


class Relaxation:
    """Several canaries, whose slots can be read as mixtures of their values; K canaries of at most S slots.

    ``sizes`` ``[K, S]`` count the values of each slot, 0 past a canary's last; A is the largest of them. What is read
    for a token has ``features`` numbers: the first ``soft`` are its embedding, the rest the features of its characters
    (none: the two are equal). ``batch`` is how many rows one pass may hold. Everything is on ``device``, in ``dtype``.
    """

    def __init__(self, rows: Sequence[OpenRow], reader: Reader[Any]) -> None:
        self._reader = reader
        self.device, self.dtype, self.soft = reader.device, reader.dtype, reader.soft
        self.batch = reader.batch(max(len(row.tokens) for row in rows))
        shape = (len(rows), max(len(row.values) for row in rows))
        self.sizes: IntArray = np.zeros(shape, dtype=np.int64)
        columns, alphabets = torch.zeros(shape, dtype=torch.long), torch.full(shape, -1)
        tables: dict[bytes, int] = {}
        for index, row in enumerate(rows):
            own = slice(len(row.values))
            self.sizes[index, own] = [len(values) for values in row.values]
            columns[index, own] = torch.tensor(row.columns)
            alphabets[index, own] = torch.tensor([tables.setdefault(v.tobytes(), len(tables)) for v in row.values])
        ids, mask = padded([row.tokens for row in rows], reader.padding)
        self._ids, self._mask, self._columns, self._alphabets = (
            part.to(self.device) for part in (ids, mask, columns, alphabets)
        )
        with torch.no_grad():
            self._fixed = reader.embed(self._ids)
            alphabet_tokens = (torch.from_numpy(np.frombuffer(key, dtype=np.int64).copy()) for key in tables)
            self._tables = [reader.embed(tokens.to(self.device)) for tokens in alphabet_tokens]
        self.features = self._fixed.shape[-1]

    def mixed(self, which: Tensor, weights: Tensor) -> Tensor:
        """What is read for mixtures: ``weights`` ``[n, S, A]`` of the values of canary ``which[i]``'s slots.

        Shape ``[n, S, features]``, differentiable; zeros past a canary's last slot.
        """
        return self._by_alphabet(which, lambda table, at: weights[at][:, : len(table)] @ table.to(weights.dtype))

    def chosen(self, which: Tensor, places: Tensor) -> Tensor:
        """What is read for the values at ``places`` ``[n, S]``: ``[n, S, features]``, zeros past the last slot."""
        return self._by_alphabet(which, lambda table, at: table[places[at]])

    def costs(self, which: Tensor, read: Tensor) -> Tensor:
        """Bits ``[n]``, differentiable, of canary ``which[i]``'s label (and tags) with slot s read as ``read[i, s]``.

        Canaries of different lengths may share a batch: a row's cost does not depend on its company.
        """
        embedded, slots = self._fixed[which], self._alphabets[which] >= 0
        rows = slots.nonzero()[:, 0]
        embedded[rows, self._columns[which][slots]] = read[slots].to(embedded.dtype)
        return self._reader.costs(which, self._ids[which], self._mask[which], embedded)

    def nearest(self, which: Tensor, read: Tensor) -> Tensor:
        """The places ``[n, S]`` of the values whose embeddings are nearest to ``read`` ``[n, S, soft or more]``.

        Nearest in Euclidean distance among the slot's own values; 0 past a canary's last slot.
        """
        exactly = "donot_use_mm_for_euclid_dist"
        found = torch.zeros(read.shape[:2], dtype=torch.long, device=self.device)
        for table, at in self._slots(which):
            own = read[at][:, : self.soft].detach()
            values = table[:, : self.soft].to(own.dtype)
            found[at] = torch.cdist(own, values, compute_mode=exactly).argmin(dim=1)
        return found

    def _slots(self, which: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The table of each alphabet, and at which slots ``[n, S]`` (bool) of these canaries its values stand."""
        alphabets = self._alphabets[which]
        pairs = [(table, alphabets == number) for number, table in enumerate(self._tables)]
        return [(table, at) for table, at in pairs if at.any()]

    def _by_alphabet(self, which: Tensor, read: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        found = self._fixed.new_zeros(len(which), self.sizes.shape[1], self.features)
        for table, at in self._slots(which):
            found[at] = read(table, at).to(found.dtype)
        return found


def open_row(canary: Canary, rows: TokenRows, known: Callable[[int], bool], remedy: str) -> OpenRow:
    """The row of a canary's attack space with each slot open; ``remedy`` is what to do about values not ``known``.

    Raises TargetError where a value is not one token that is ``known``, or where the values' tokens depend on the text
    around them.
    """
    space = canary.attack_space
    values = [_single(canary, rows, slot, known, remedy) for slot in range(len(space.slots))]
    columns = [rows.column(slot) for slot in range(len(space.slots))]
    last = [len(slot) - 1 for slot in space.slots]
    for places in ([0] * len(last), last):
        row = [int(token) for token in rows.of(np.array([places]))[0]]
        expected = [int(tokens[place]) for tokens, place in zip(values, places, strict=True)]
        if None in columns or [row[column] for column in columns if column is not None] != expected:
            raise TargetError(
                "the tokens of its values depend on the text around them, so that they cannot be mixed: put spaces "
                "around its slots"
            )
    return OpenRow(row, [column for column in columns if column is not None], values)


def _single(canary: Canary, rows: TokenRows, slot: int, known: Callable[[int], bool], remedy: str) -> IntArray:
    """The one token of each of a slot's values."""
    values, tokens = canary.attack_space.slots[slot].values, rows.tokens(slot)
    of_all = f"of the {len(values)} values of slot {slot + 1} are"
    if several := [repr(value) for value, token in zip(values, tokens, strict=True) if len(token) != 1]:
        raise TargetError(
            f"{len(several)} {of_all} not one token each ({some_of(several)}), and only single ones can be mixed: use "
            "attack=label-search"
        )
    if unknown := [repr(value) for value, token in zip(values, tokens, strict=True) if not known(token[0])]:
        raise TargetError(f"{len(unknown)} {of_all} unknown to the model ({some_of(unknown)}): {remedy}")
    return np.array(tokens, dtype=np.int64)[:, 0]


def frozen(model: Any, double: bool) -> Any:
    """A copy of a model whose weights get no gradients: the model's own, or with ``double`` float64 ones."""
    weights = {id(weight): nn.Parameter(weight.detach(), requires_grad=False) for weight in model.parameters()}
    # Deep copies take what they find in this table for copied, so that no weight is held twice.
    copied = copy.deepcopy(model, dict(weights)).eval()
    return copied.double() if double else copied

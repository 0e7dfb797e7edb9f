"""Canaries whose slots are read as mixtures of their values, so that gradients reach the slots.

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
from leakage_tasks.models.loading import check_double
from leakage_tasks.targets.batches import padded
from leakage_tasks.targets.label_model import LabelModel
from leakage_tasks.targets.label_names import abbreviate
from leakage_tasks.targets.tokens.slot_tokens import SpaceRows


@dataclass(frozen=True)
class OpenRow:
    """A canary's token row with any value in each slot.

    ``columns`` are the slots' columns in the row, ``values`` the tokens of each slot's values.
    """

    tokens: list[int]
    columns: list[int]
    values: list[IntArray]


Model = TypeVar("Model", bound=LabelModel)


class Reader(Generic[Model]):
    """A model with fixed weights that predicts the label (and tags) of each canary.

    With ``double`` it computes in float64.
    """

    soft: int
    """Number of leading features of a token that are its embedding, see :class:`Relaxation`."""

    def __init__(self, target: Model, canaries: Sequence[Canary], double: bool) -> None:
        check_double(target.device, "the attack inversion")
        self._target = copy.copy(target)
        self._target.model = frozen(target.model, double)
        self._labels = torch.tensor([target.place_of(canary.label) for canary in canaries], device=target.device)
        self.device, self.dtype, self.padding = target.device, self._target.model.dtype, target.padding

    def batch(self, length: int) -> int:
        """Return the number of rows of ``length`` tokens in a pass, gradients included."""
        return self._target.batch(length)

    @abstractmethod
    def embed(self, tokens: Tensor) -> Tensor:
        """Return the features ``[…, features]`` of tokens ``[…]``."""

    @abstractmethod
    def costs(self, which: Tensor, tokens: Tensor, mask: Tensor, embedded: Tensor) -> Tensor:
        """Return costs in bits ``[n]`` of rows ``[n, length]`` of canaries ``which``, read as features ``embedded``."""


class Relaxation:
    """Canaries whose slots can be read as mixtures of their values: K canaries of at most S slots.

    ``sizes`` ``[K, S]`` are the numbers of values of each slot, 0 past a canary's last slot; A is the largest of them.
    A token is read as ``features`` numbers: the first ``soft`` are its embedding, the others describe its characters
    (there are no others if the two numbers are equal). ``batch`` is the maximum number of rows in a pass. All tensors
    are on ``device``, in ``dtype``.
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
            used = slice(len(row.values))
            self.sizes[index, used] = [len(values) for values in row.values]
            columns[index, used] = torch.tensor(row.columns)
            alphabets[index, used] = torch.tensor([tables.setdefault(v.tobytes(), len(tables)) for v in row.values])
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
        """Return the features ``[n, S, features]`` of mixtures of the values of canary ``which[i]``'s slots.

        ``weights`` ``[n, S, A]`` are the mixture weights. Differentiable; zeros past a canary's last slot.
        """
        return self._by_alphabet(which, lambda table, at: weights[at][:, : len(table)] @ table.to(weights.dtype))

    def chosen(self, which: Tensor, indices: Tensor) -> Tensor:
        """Return features ``[n, S, features]`` of the values at ``indices`` ``[n, S]``; zeros past the last slot."""
        return self._by_alphabet(which, lambda table, at: table[indices[at]])

    def costs(self, which: Tensor, read: Tensor) -> Tensor:
        """Return costs in bits ``[n]``, differentiable, of canary ``which[i]``'s label (and tags).

        Slot s is read as ``read[i, s]``. Canaries of different lengths may share a batch: the cost of a row does not
        depend on the other rows.
        """
        embedded, slots = self._fixed[which], self._alphabets[which] >= 0
        rows = slots.nonzero()[:, 0]
        embedded[rows, self._columns[which][slots]] = read[slots].to(embedded.dtype)
        return self._reader.costs(which, self._ids[which], self._mask[which], embedded)

    def nearest(self, which: Tensor, read: Tensor) -> Tensor:
        """Return indices ``[n, S]`` of the values whose embeddings are nearest to ``read`` ``[n, S, soft or more]``.

        The distance is Euclidean, among the slot's own values; 0 past a canary's last slot.
        """
        exactly = "donot_use_mm_for_euclid_dist"
        indices = torch.zeros(read.shape[:2], dtype=torch.long, device=self.device)
        for table, at in self._slots(which):
            embedded = read[at][:, : self.soft].detach()
            values = table[:, : self.soft].to(embedded.dtype)
            indices[at] = torch.cdist(embedded, values, compute_mode=exactly).argmin(dim=1)
        return indices

    def _slots(self, which: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return the table of each alphabet with a mask ``[n, S]`` (bool) of these canaries' slots that use it."""
        alphabets = self._alphabets[which]
        pairs = [(table, alphabets == number) for number, table in enumerate(self._tables)]
        return [(table, at) for table, at in pairs if at.any()]

    def _by_alphabet(self, which: Tensor, read: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        features = self._fixed.new_zeros(len(which), self.sizes.shape[1], self.features)
        for table, at in self._slots(which):
            features[at] = read(table, at).to(features.dtype)
        return features


def open_row(canary: Canary, rows: SpaceRows, known: Callable[[int], bool], remedy: str) -> OpenRow:
    """Return the row of a canary's attack space with each slot open.

    Args:
        canary: the canary.
        rows: the token rows of its space.
        known: the test that the model knows a token.
        remedy: the remedy in the error about unknown values.

    Raises:
        TargetError: a value is not one ``known`` token, or its tokens depend on the text around it.
    """
    space = canary.attack_space
    values = [_single(canary, rows, slot, known, remedy) for slot in range(len(space.slots))]
    columns = [rows.column(slot) for slot in range(len(space.slots))]
    last = [len(slot) - 1 for slot in space.slots]
    for indices in ([0] * len(last), last):
        row = [int(token) for token in rows.of(np.array([indices]))[0]]
        expected = [int(tokens[index]) for tokens, index in zip(values, indices, strict=True)]
        if None in columns or [row[column] for column in columns if column is not None] != expected:
            raise TargetError(
                "the tokens of the slots' values depend on the text around them, so that they cannot be mixed: put "
                "spaces around the slots"
            )
    return OpenRow(row, [column for column in columns if column is not None], values)


def _single(canary: Canary, rows: SpaceRows, slot: int, known: Callable[[int], bool], remedy: str) -> IntArray:
    """Return the one token of each of a slot's values."""
    values, tokens = canary.attack_space.slots[slot].values, rows.tokens(slot)
    of_all = f"of the {len(values)} values of slot {slot + 1} are"
    if several := [repr(value) for value, token in zip(values, tokens, strict=True) if len(token) != 1]:
        raise TargetError(
            f"{len(several)} {of_all} not one token each ({abbreviate(several)}), and only single tokens can be mixed: "
            "use attack=label-search"
        )
    if unknown := [repr(value) for value, token in zip(values, tokens, strict=True) if not known(token[0])]:
        raise TargetError(f"{len(unknown)} {of_all} unknown to the model ({abbreviate(unknown)}): {remedy}")
    return np.array(tokens, dtype=np.int64)[:, 0]


def frozen(model: Any, double: bool) -> Any:
    """Return a copy of a model without gradients for weights; it shares them, or has float64 ones if ``double``."""
    weights = {id(weight): nn.Parameter(weight.detach(), requires_grad=False) for weight in model.parameters()}
    # A deep copy treats the objects in this table as already copied, so that no weight is held twice.
    copied = copy.deepcopy(model, dict(weights)).eval()
    return copied.double() if double else copied

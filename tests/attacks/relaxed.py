"""A made-up model that reads mixtures, whose loss of every filling is known by enumeration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.canaries import Canary
from leakage_tasks.core.errors import TargetError

EMBEDDING, CHARACTERS = 6, 3


class Mixtures:
    """What the attack asks of a target: the loss is lowest, 0 bits, at each canary's secret.

    It is the sum over slots of a squared tanh of what is read there, less what the secret reads, in a random basis: no
    convex function, and one in which slots meet through ``coupling``. Values are read as random embeddings, with
    ``characters`` as three features more that are not mixed with them in the published variant.
    """

    max_length = None

    def __init__(
        self, batch: int = 1000, *, coupling: float = 0.3, characters: bool = False, unknown: str = ""
    ) -> None:
        self.batch, self.coupling, self.characters, self.unknown = batch, coupling, characters, unknown
        self.asked: list[int] = []

    def length(self, text: str) -> None:
        return None

    def relaxed(self, canaries: Sequence[Canary], double: bool) -> Relaxed:
        if any(self.unknown in canary.secret for canary in canaries):
            raise TargetError(f"a slot has a value the model does not know, {self.unknown!r}: use others")
        return Relaxed(self, canaries, torch.float64 if double else torch.float32)


class Relaxed:
    """The relaxation of some canaries, all over one alphabet's first values."""

    device = torch.device("cpu")

    def __init__(self, model: Mixtures, canaries: Sequence[Canary], dtype: torch.dtype) -> None:
        self.model, self.batch, self.dtype = model, model.batch, dtype
        spaces = [canary.attack_space.slots for canary in canaries]
        longest = max(map(len, spaces))
        self.sizes = np.array([[len(slot) for slot in slots] + [0] * (longest - len(slots)) for slots in spaces])
        self.there = torch.from_numpy(self.sizes > 0)[..., None].to(dtype)
        self.soft = EMBEDDING
        self.features = EMBEDDING + CHARACTERS * model.characters
        stream = np.random.default_rng(0)
        self.table = self._numbers(stream.normal(size=(64, self.features)))[: int(self.sizes.max())]
        self.basis = self._numbers(stream.normal(size=(self.features, self.features)))
        places = np.zeros((len(canaries), longest), dtype=np.int64)
        for row, canary in enumerate(canaries):
            places[row, : len(canary.secret)] = places_of(canary)
        self.secret = self.chosen(torch.arange(len(canaries)), torch.from_numpy(places))

    def _numbers(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.dtype)

    def mixed(self, which: Tensor, weights: Tensor) -> Tensor:
        return (weights @ self.table) * self.there[which]

    def chosen(self, which: Tensor, places: Tensor) -> Tensor:
        return self.table[places] * self.there[which]

    def costs(self, which: Tensor, read: Tensor) -> Tensor:
        assert read.shape == (len(which), self.sizes.shape[1], self.features)
        assert len(which) <= self.batch
        self.model.asked.append(len(which))
        away = (read - self.secret[which]) * self.there[which]
        met = away + self.model.coupling * (away.sum(1, keepdim=True) - away)
        return (torch.tanh(met @ self.basis) ** 2 * self.there[which]).sum((1, 2))

    def nearest(self, which: Tensor, read: Tensor) -> Tensor:
        distances = (read[..., None, : self.soft] - self.table[:, : self.soft]).norm(dim=-1)
        closed = torch.arange(len(self.table)) >= torch.from_numpy(self.sizes)[which][..., None].clamp(min=1)
        return distances.masked_fill(closed, torch.inf).argmin(-1)


def places_of(canary: Canary) -> Any:
    """The secret's values as places in their alphabets."""
    slots = canary.attack_space.slots
    return torch.tensor([slot.position(value) for slot, value in zip(slots, canary.secret, strict=True)])

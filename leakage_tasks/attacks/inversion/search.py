"""Gradient descent on relaxed tokens: what is optimised in each variant, and how.

Parikh, Dupuy and Gupta 2022, "Canary Extraction in Natural Language Understanding Models", section 3.1 and appendix B.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.stats.bits import LN2

if TYPE_CHECKING:
    from leakage_tasks.targets.relaxation import Relaxation

DECAY = 0.995
"""The learning rate is multiplied by it after each step (appendix B)."""
ADAPTIVE, PUBLISHED = "adaptive", "published"
COLDEST = 1e-6
"""No temperature is lower: a softmax is one-hot by then, and its logits must stay numbers."""
CHUNK = 1024
"""Values whose embeddings are looked up at once."""


@dataclass(frozen=True)
class InversionSettings:
    """How one search goes; the attack's settings of these names."""

    relaxation: str
    characters: str
    steps: int
    spread: float
    learning_rate: float
    start_temperature: float
    cooling: float

    def temperature(self, step: int) -> float:
        """T of the step, counted from 0 (appendix B)."""
        return max(self.start_temperature * self.cooling**step, COLDEST)


def relaxed_search(relaxation: Relaxation, which: Tensor, seeds: Sequence[str], plan: InversionSettings) -> Tensor:
    """Minimise the summed loss in nats over n rows, row i filling canary ``which[i]``; no row touches another.

    ``seeds[i]`` decides where row i starts, and its noise. Returns ``[n, S, A]``: the higher, the more a slot's value
    is preferred in the end, −inf where there is no such value.
    """
    form = FORMS[plan.relaxation](relaxation, which, seeds, plan)
    optimizer = torch.optim.Adam([form.parameter], lr=plan.learning_rate)
    rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, DECAY)
    for step in range(plan.steps):
        loss = relaxation.costs(which, form.read(plan.temperature(step))).sum() * LN2
        (form.parameter.grad,) = torch.autograd.grad(loss, [form.parameter])
        optimizer.step()
        rates.step()
    return form.preferences().masked_fill(form.closed, -torch.inf)


class Logits:
    """Logits z ``[n, S, A]`` from N(0, spread²); the model reads the mixtures softmax(z / T) (Equations 1 and 2)."""

    def __init__(self, relaxation: Relaxation, which: Tensor, seeds: Sequence[str], plan: InversionSettings) -> None:
        self.relaxation, self.which = relaxation, which
        # Adam's squared gradients leave the numbers that half precision has.
        self.dtype = torch.promote_types(relaxation.dtype, torch.float32)
        self.published = plan.characters == PUBLISHED and relaxation.features > relaxation.soft
        sizes = relaxation.sizes[which.cpu().numpy()]
        widest = np.arange(relaxation.sizes.max())
        self.draws = _Draws(widest < sizes[..., None], seeds)
        # A slot past a canary's last keeps one value, so that its softmax is defined; nothing reads it.
        open_ = widest < np.maximum(sizes, 1)[..., None]
        self.closed = torch.from_numpy(~open_).to(relaxation.device)
        self.parameter = self.start(plan.spread).requires_grad_(True)

    def start(self, spread: float) -> Tensor:
        """Where the descent starts."""
        # What overflows is told as a loss that is no number, which names the remedy.
        with np.errstate(over="ignore"):
            return self.tensor(spread * self.draws.normal())

    def tensor(self, values: FloatArray) -> Tensor:
        """``values`` where the model reads numbers and, but for half precision, as it does."""
        return torch.from_numpy(values).to(self.relaxation.device, self.dtype)

    def weights(self, temperature: float) -> Tensor:
        """Shares of the values in each slot."""
        return (self.parameter / temperature).masked_fill(self.closed, -torch.inf).softmax(-1)

    def read(self, temperature: float) -> Tensor:
        """What the model reads in the slots, ``[n, S, features]``."""
        weights = self.weights(temperature)
        mixed = self.relaxation.mixed(self.which, weights)
        return self.with_characters(mixed, weights.argmax(-1)) if self.published else mixed

    def with_characters(self, read: Tensor, places: Tensor) -> Tensor:
        """``read`` with the characters' features of the values at ``places`` ``[n, S]``, constant in the descent."""
        soft = self.relaxation.soft
        own = self.relaxation.chosen(self.which, places).detach()
        return torch.cat([read[..., :soft], own[..., soft:]], dim=-1)

    def preferences(self) -> Tensor:
        """How much each value is preferred, ``[n, S, A]``."""
        return self.parameter.detach()


class GumbelLogits(Logits):
    """Gumbel noise is added to z / T, anew each step: near-discrete draws from softmax(z / T) (Jang et al. 2017)."""

    def weights(self, temperature: float) -> Tensor:
        """Shares of the values in each slot, noisy."""
        noisy = self.parameter / temperature + self.tensor(self.draws.gumbel())
        return noisy.masked_fill(self.closed, -torch.inf).softmax(-1)


class StraightThroughLogits(Logits):
    """The model reads the likeliest value itself; the gradient is that of the mixture (Bengio et al. 2013)."""

    def weights(self, temperature: float) -> Tensor:
        """1 for the likeliest value of each slot and 0 for the others, with the softmax's gradient."""
        soft = super().weights(temperature)
        hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
        return hard + (soft - soft.detach())


class Embeddings(Logits):
    """The embeddings themselves ``[n, S, soft]``: the paper's "trivial attack" (section 3.1); T is not used."""

    def start(self, spread: float) -> Tensor:
        """Draws from a normal of the mean and covariance of the slot's embeddings; ``spread`` is not used."""
        sizes = (~self.closed).sum(-1, keepdim=True)
        noise = self.tensor(self.draws.normal())
        noise = (noise - noise.sum(-1, keepdim=True) / sizes) / sizes.sqrt() + 1 / sizes
        shares = noise.masked_fill(self.closed, 0.0)
        return self.relaxation.mixed(self.which, shares)[..., : self.relaxation.soft].detach().to(self.dtype, copy=True)

    def read(self, temperature: float) -> Tensor:
        """The embeddings, beside them the characters' features of the nearest value."""
        if self.relaxation.features == self.relaxation.soft:
            return self.parameter
        return self.with_characters(self.parameter, self.relaxation.nearest(self.which, self.parameter.detach()))

    def preferences(self) -> Tensor:
        """Less the Euclidean distance to each value, ``[n, S, A]``."""
        found = torch.zeros(self.closed.shape, dtype=self.parameter.dtype, device=self.parameter.device)
        for canary in self.which.unique():
            rows = self.which == canary
            found[rows] = -self._distances(canary, self.parameter.detach()[rows])
        return found

    def _distances(self, canary: Tensor, points: Tensor) -> Tensor:
        """Of ``points`` ``[r, S, soft]`` to each value of one canary ``[r, S, A]``; past a slot's last, nothing."""
        sizes = torch.from_numpy(self.relaxation.sizes[int(canary)]).to(points.device).clamp(min=1)
        parts = []
        for values in torch.arange(self.closed.shape[-1], device=points.device).split(CHUNK):
            places = torch.minimum(values[:, None], sizes - 1)
            read = self.relaxation.chosen(canary.expand(len(values)), places)[..., : self.relaxation.soft]
            parts.append(torch.cdist(points.transpose(0, 1), read.to(points.dtype).transpose(0, 1)).transpose(0, 1))
        return torch.cat(parts, dim=-1)


FORMS: dict[str, type[Logits]] = {
    "softmax": Logits,
    "gumbel": GumbelLogits,
    "straight-through": StraightThroughLogits,
    "embedding": Embeddings,
}
"""What is optimised, by the name of the setting ``relaxation``."""


class _Draws:
    """Random numbers for n rows, each from a stream of its own: the other rows, and how wide they are, change nothing.

    ``there`` ``[n, S, A]`` says which values there are.
    """

    def __init__(self, there: NDArray[np.bool_], seeds: Sequence[str]) -> None:
        self.there = there
        self.streams = [np.random.default_rng(_number(seed)) for seed in seeds]
        self.counts = there.sum(axis=(1, 2)).tolist()

    def normal(self) -> FloatArray:
        """Standard normal ``[n, S, A]``, 0 where there is no value."""
        return self._spread([stream.standard_normal(n) for stream, n in zip(self.streams, self.counts, strict=True)])

    def gumbel(self) -> FloatArray:
        """Standard Gumbel ``[n, S, A]``, 0 where there is no value."""
        return self._spread([stream.gumbel(size=n) for stream, n in zip(self.streams, self.counts, strict=True)])

    def _spread(self, drawn: Sequence[FloatArray]) -> FloatArray:
        found = np.zeros(self.there.shape)
        found[self.there] = np.concatenate(drawn)
        return found


def _number(seed: str) -> int:
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:16], "big")

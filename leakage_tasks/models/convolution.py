"""Convolutions over what is already there, which can go on where a text was left."""

from __future__ import annotations

import torch
from torch import nn


class CausalConv(nn.Conv1d):
    """A convolution in which each place sees itself and places before it; before the text are zeros."""

    def __init__(self, features: int, out: int, width: int, dilation: int = 1) -> None:
        """Read ``width`` places, each ``dilation`` from the next."""
        super().__init__(features, out, width, dilation=dilation)
        self.held = (width - 1) * dilation
        """Places to remember: how far back the first of them lies."""

    def empty(self, inputs: torch.Tensor) -> torch.Tensor:
        """The memory [batch, features, held] before a text, of the type of ``inputs``, batch first."""
        return inputs.new_zeros(len(inputs), self.in_channels, self.held)

    def read(
        self, inputs: torch.Tensor, memory: torch.Tensor, lengths: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read ``inputs`` [batch, features, length] on from ``memory``: outputs [batch, out, length] and the memory.

        With ``lengths`` [batch] the memory is that after so many places of each row.
        """
        whole = torch.cat([memory, inputs], dim=2)
        if lengths is None:
            return self(whole), whole[..., inputs.shape[2] :]
        places = lengths[:, None, None] + torch.arange(self.held, device=whole.device)
        return self(whole), whole.gather(2, places.expand(-1, whole.shape[1], -1))

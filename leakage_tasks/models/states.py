"""Recurrent states as tuples of tensors; this module loads no `transformers`."""

from __future__ import annotations

from torch import Tensor

State = tuple[Tensor, ...]
"""A model's state after the text so far; each tensor has shape [batch, …]."""


class LayersFirst(State):
    """A state with the batch in the second dimension, [layers, batch, hidden], as PyTorch's recurrent layers read it.

    A model that ``reads_layers_first`` and gets such a state returns one, without two copies of each tensor.
    """

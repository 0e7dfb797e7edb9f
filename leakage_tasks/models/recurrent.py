"""The body shared by the recurrent language models: PyTorch's layers, with their state turned batch first."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from leakage_tasks.models.stateful import State, StatefulCausalLM, StatefulConfig


class RecurrentCausalLM(StatefulCausalLM):
    """Embedding, recurrent layers, linear; each tensor of the state is [batch, layers, hidden]."""

    parts: int
    """Tensors of the state: 2 (h, c) in an LSTM, 1 (h) in a GRU."""

    def layers(self) -> nn.Module:
        """The recurrent layers: (inputs, state or None) to (hidden, state), as ``nn.LSTM`` or ``nn.GRU`` have them."""
        raise NotImplementedError

    def empty(self, embedded: torch.Tensor) -> State:
        """Zeros."""
        size = (embedded.shape[0], self.config.num_hidden_layers, self.config.hidden_size)
        return (embedded.new_zeros(size),) * self.parts

    def read(
        self, embedded: torch.Tensor, state: State | None, lengths: torch.Tensor | None
    ) -> tuple[torch.Tensor, State]:
        """See :meth:`StatefulCausalLM.read`."""
        before = None if state is None else self._layers_first(state)
        if lengths is None:
            hidden, after = self.layers()(embedded, before)
            return hidden, self._batch_first(after)
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed_hidden, after = self.layers()(packed, before)
        hidden, _ = pad_packed_sequence(packed_hidden, batch_first=True, total_length=embedded.shape[1])
        return hidden, self._batch_first(after)

    def _layers_first(self, state: State) -> torch.Tensor | State:
        swapped = _swap(state)
        return swapped if self.parts > 1 else swapped[0]

    def _batch_first(self, state: torch.Tensor | State) -> State:
        return _swap((state,) if isinstance(state, torch.Tensor) else state)


def sizes_of(config: StatefulConfig) -> dict[str, int | float | bool]:
    """Arguments of ``nn.LSTM`` and ``nn.GRU``."""
    layers = config.num_hidden_layers
    return {
        "input_size": config.embedding_size,
        "hidden_size": config.hidden_size,
        "num_layers": layers,
        "batch_first": True,
        # PyTorch's acts between layers alone, and complains where there is one.
        "dropout": config.dropout if layers > 1 else 0.0,
    }


def _swap(state: State) -> State:
    """Between [batch, layers, hidden] and PyTorch's [layers, batch, hidden]."""
    return tuple(part.transpose(0, 1).contiguous() for part in state)

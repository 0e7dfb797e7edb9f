"""An LSTM with per-row gradients for opacus, on the weights of an ordinary ``nn.LSTM``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from leakage_tasks.models.recurrent import CharLSTMForCausalLM

State = tuple[Tensor, Tensor]
"""(h, c), each of shape [layers, batch, hidden], as in ``nn.LSTM``."""


class RowLSTM(nn.Module):
    """A batch-first ``nn.LSTM`` computed with ``nn.Linear`` layers that share its parameters.

    opacus has no per-row gradients for ``nn.LSTM``. Its own ``DPLSTM`` calls a linear layer at every step and adds a
    gradient of all weights for each row and step. Here each linear layer is called once with all steps, so opacus
    computes one product per row: the gradients are equal, and nine times as fast for 2×200 units and 64 steps.
    """

    def __init__(self, lstm: nn.LSTM) -> None:
        """Share the parameters of ``lstm``: batch-first, one direction, with biases, without dropout."""
        super().__init__()
        self.layers = nn.ModuleList(_RowLayer(lstm, f"l{number}") for number in range(lstm.num_layers))

    def forward(self, inputs: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Read ``inputs`` [batch, steps, features]. Return the hidden states [batch, steps, hidden] and (h, c)."""
        if state is not None:
            raise ValueError("each row starts from an empty state: leave out the state")
        hidden, ends = inputs, []
        for layer in self.layers:
            hidden, end = layer(hidden)
            ends.append(end)
        h, c = (torch.stack(part) for part in zip(*ends, strict=True))
        return hidden, (h, c)


class RowBiLSTM(nn.Module):
    """A variant of :class:`RowLSTM` for a batch-first, bidirectional ``nn.LSTM`` of one layer and rows of any
    length."""

    def __init__(self, lstm: nn.LSTM) -> None:
        """Share the parameters of ``lstm``, which must have biases."""
        super().__init__()
        self.ahead, self.back = _RowLayer(lstm, "l0"), _RowLayer(lstm, "l0_reverse")

    def forward(self, inputs: Tensor | PackedSequence) -> tuple[Tensor | PackedSequence, None]:
        """Read a batch [batch, steps, features], padded or packed. Return hidden states like ``nn.LSTM``, and None."""
        if isinstance(inputs, Tensor):
            return self._read(inputs, torch.full(inputs.shape[:1], inputs.shape[1])), None
        padded, lengths = pad_packed_sequence(inputs, batch_first=True)
        hidden = self._read(padded, lengths)
        return pack_padded_sequence(hidden, lengths, batch_first=True, enforce_sorted=False), None

    def _read(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Return the hidden states [batch, steps, 2 × hidden]. Padding does not change them."""
        steps, lengths = torch.arange(inputs.shape[1], device=inputs.device), lengths.to(inputs.device)[:, None]
        # Reverses each row within its length. Reversing twice restores the order.
        reverse = torch.where(steps < lengths, lengths - 1 - steps, steps)[..., None]
        ahead, _ = self.ahead(inputs)
        back, _ = self.back(inputs.take_along_dim(reverse, dim=1))
        return torch.cat([ahead, back.take_along_dim(reverse, dim=1)], dim=-1)


@contextmanager
def use_row_lstm(model: CharLSTMForCausalLM, rows: RowLSTM) -> Iterator[None]:
    """Replace the LSTM of ``model`` by ``rows`` inside the block. Both share their weights, so training is kept."""
    lstm = model.lstm
    model.lstm = rows  # type: ignore[assignment]
    try:
        yield
    finally:
        model.lstm = lstm


class _RowLayer(nn.Module):
    """One layer, computed in two passes: hidden states without gradients, then gradients.

    In the second pass the recurrent product is one call on the known states, which are constants. Gradients flow from
    step to step through (h − constant h), which is zero but has a gradient.
    """

    def __init__(self, lstm: nn.LSTM, layer: str) -> None:
        """Share the weights of ``lstm`` whose names end in ``layer``, such as ``l0`` or ``l0_reverse``."""
        super().__init__()
        self.ih, self.hh = (_linear(lstm, f"{part}_{layer}") for part in ("ih", "hh"))

    def forward(self, inputs: Tensor) -> tuple[Tensor, State]:
        driven = self.ih(inputs)
        with torch.no_grad():
            hidden, _ = self._steps(driven + self.hh.bias)
            before = torch.cat([torch.zeros_like(hidden[:, :1]), hidden[:, :-1]], dim=1)
        return self._steps(driven + self.hh(before), known=True)

    def _steps(self, gates: Tensor, known: bool = False) -> tuple[Tensor, State]:
        """Return the hidden states [batch, steps, hidden] and the last (h, c).

        ``known`` means that ``gates`` include the recurrent product.
        """
        recurrent = self.hh.weight.detach().t()
        h = c = gates.new_zeros(len(gates), self.hh.in_features)
        states = []
        for step in gates.unbind(dim=1):
            enter, forget, new, leave = (step + (h - h.detach() if known else h) @ recurrent).chunk(4, dim=1)
            c = forget.sigmoid() * c + enter.sigmoid() * new.tanh()
            h = leave.sigmoid() * c.tanh()
            states.append(h)
        return torch.stack(states, dim=1), (h, c)


def _linear(lstm: nn.LSTM, name: str) -> nn.Linear:
    weight = getattr(lstm, f"weight_{name}")
    linear = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    linear.weight, linear.bias = weight, getattr(lstm, f"bias_{name}")
    return linear

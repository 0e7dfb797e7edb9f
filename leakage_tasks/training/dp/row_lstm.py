"""An LSTM whose gradients opacus can tell apart by row, on the weights of an ordinary ``nn.LSTM``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from leakage_tasks.models.recurrent import CharLSTMForCausalLM

State = tuple[Tensor, Tensor]
"""(h, c), each of shape [layers, batch, hidden], as ``nn.LSTM`` has them."""


class RowLSTM(nn.Module):
    """The computation of a batch-first ``nn.LSTM``, on its very parameters, out of ``nn.Linear`` layers.

    opacus has no gradients by row for ``nn.LSTM``. Its own ``DPLSTM`` calls a linear layer at every step and adds up a
    gradient of all weights for each row and step. Here each linear layer is called once with all steps, so that
    opacus makes one product a row of it: the same gradients, nine times faster for 2×200 units and 64 steps.
    """

    def __init__(self, lstm: nn.LSTM) -> None:
        """``lstm`` is batch-first, of one direction, with biases and without dropout between its layers."""
        super().__init__()
        self.layers = nn.ModuleList(_RowLayer(lstm, f"l{number}") for number in range(lstm.num_layers))

    def forward(self, inputs: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Read ``inputs`` [batch, steps, features] from an empty state: hidden [batch, steps, hidden] and (h, c)."""
        if state is not None:
            raise ValueError("each row starts from an empty state: give none")
        hidden, ends = inputs, []
        for layer in self.layers:
            hidden, end = layer(hidden)
            ends.append(end)
        h, c = (torch.stack(part) for part in zip(*ends, strict=True))
        return hidden, (h, c)


class RowBiLSTM(nn.Module):
    """The same for a batch-first, bidirectional ``nn.LSTM`` of one layer, whose rows may differ in length."""

    def __init__(self, lstm: nn.LSTM) -> None:
        """``lstm`` has biases."""
        super().__init__()
        self.ahead, self.back = _RowLayer(lstm, "l0"), _RowLayer(lstm, "l0_reverse")

    def forward(self, inputs: Tensor | PackedSequence) -> tuple[Tensor | PackedSequence, None]:
        """Read a batch [batch, steps, features], or a packed one, as ``nn.LSTM`` does: hidden states, no last ones."""
        if isinstance(inputs, Tensor):
            return self._read(inputs, torch.full(inputs.shape[:1], inputs.shape[1])), None
        padded, lengths = pad_packed_sequence(inputs, batch_first=True)
        hidden = self._read(padded, lengths)
        return pack_padded_sequence(hidden, lengths, batch_first=True, enforce_sorted=False), None

    def _read(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Hidden [batch, steps, 2 × hidden]; what stands past a row's end, in ``inputs`` too, changes no row."""
        steps, lengths = torch.arange(inputs.shape[1], device=inputs.device), lengths.to(inputs.device)[:, None]
        # Each row turned round within its own length; done twice, it is as it was.
        turned = torch.where(steps < lengths, lengths - 1 - steps, steps)[..., None]
        ahead, _ = self.ahead(inputs)
        back, _ = self.back(inputs.take_along_dim(turned, dim=1))
        return torch.cat([ahead, back.take_along_dim(turned, dim=1)], dim=-1)


@contextmanager
def reading_rows(model: CharLSTMForCausalLM, rows: RowLSTM) -> Iterator[None]:
    """``model`` reads by ``rows`` inside; afterwards its own LSTM is back, with what was learnt: both share weights."""
    lstm = model.lstm
    model.lstm = rows  # type: ignore[assignment]
    try:
        yield
    finally:
        model.lstm = lstm


class _RowLayer(nn.Module):
    """One layer. A first pass without gradients finds the hidden states, a second one has the gradients.

    In the second pass the recurrent product is one call on the known states, taken as constants; what flows back from
    step to step goes through (h − constant h), which is zero but has a gradient.
    """

    def __init__(self, lstm: nn.LSTM, layer: str) -> None:
        """``layer`` is how the names of its weights end: ``l0``, ``l0_reverse``."""
        super().__init__()
        self.ih, self.hh = (_linear(lstm, f"{part}_{layer}") for part in ("ih", "hh"))

    def forward(self, inputs: Tensor) -> tuple[Tensor, State]:
        driven = self.ih(inputs)
        with torch.no_grad():
            hidden, _ = self._steps(driven + self.hh.bias)
            before = torch.cat([torch.zeros_like(hidden[:, :1]), hidden[:, :-1]], dim=1)
        return self._steps(driven + self.hh(before), known=True)

    def _steps(self, gates: Tensor, known: bool = False) -> tuple[Tensor, State]:
        """Hidden [batch, steps, hidden], last (h, c); ``known`` says that ``gates`` hold the recurrent product."""
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

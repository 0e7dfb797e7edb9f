"""WaveNet over characters as a transformers model (van den Oord et al., 2016).

Its state, in ``past_key_values``, is what each convolution still sees: its last (kernel − 1)·dilation inputs,
[batch, features, (kernel − 1)·dilation].
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from leakage_tasks.models.convolution import CausalConv
from leakage_tasks.models.stateful import State, StatefulCausalLM, StatefulConfig


class CharWaveNetConfig(StatefulConfig):
    """Sizes of a :class:`CharWaveNetForCausalLM`.

    ``kernel_size`` is the width of all convolutions, the first included; layer i (from 1) has dilation
    ``dilation_base`` to the i. No place is passed over as long as the base is at most the kernel's size.
    """

    model_type = "char_wavenet"

    def __init__(self, *sizes: Any, kernel_size: int = 3, dilation_base: int = 3, **kwargs: Any) -> None:
        self.kernel_size = kernel_size
        self.dilation_base = dilation_base
        super().__init__(*sizes, **kwargs)

    @property
    def receptive_field(self) -> int:
        """Characters a prediction rests on."""
        return 1 + (self.kernel_size - 1) * sum(self.dilation_base**n for n in range(self.num_hidden_layers + 1))


class CharWaveNetForCausalLM(StatefulCausalLM):
    """A causal convolution, gated dilated ones with residual and skip connections, two 1×1 convolutions.

    The Secret Sharer, Table 1, "WaveNet". As in the WaveNet paper's Figure 4, one 1×1 convolution a layer serves the
    residual and the skip connection both.
    """

    config_class = CharWaveNetConfig

    def __init__(self, config: CharWaveNetConfig) -> None:
        super().__init__(config)
        units, width = config.hidden_size, config.kernel_size
        self.first = CausalConv(config.embedding_size, units, width)
        self.layers = nn.ModuleList(
            _Layer(units, width, config.dilation_base**number) for number in range(1, config.num_hidden_layers + 1)
        )
        self.mix = nn.Linear(units, units)
        self.head = nn.Linear(units, config.vocab_size)
        self.post_init()

    def empty(self, embedded: torch.Tensor) -> State:
        """Zeros."""
        return tuple(convolution.empty(embedded) for convolution in self._convolutions())

    def read(
        self, embedded: torch.Tensor, state: State | None, lengths: torch.Tensor | None
    ) -> tuple[torch.Tensor, State]:
        """See :meth:`StatefulCausalLM.read`."""
        before = state or self.empty(embedded)
        hidden, memory = self.first.read(embedded.transpose(1, 2), before[0], lengths)
        after, skipped = [memory], torch.zeros_like(hidden)
        for layer, held in zip(self.layers, before[1:], strict=True):
            passed, memory = layer(hidden, held, lengths)
            passed = self.dropout(passed)
            hidden, skipped = hidden + passed, skipped + passed
            after.append(memory)
        return self.mix(skipped.relu().transpose(1, 2)).relu(), tuple(after)

    def _convolutions(self) -> list[CausalConv]:
        return [self.first, *(layer.gated for layer in self.layers)]  # type: ignore[list-item]


class _Layer(nn.Module):
    """tanh times sigmoid of a dilated convolution, then 1×1."""

    def __init__(self, units: int, width: int, dilation: int) -> None:
        super().__init__()
        self.gated = CausalConv(units, 2 * units, width, dilation)
        self.out = nn.Conv1d(units, units, 1)

    def forward(
        self, inputs: torch.Tensor, memory: torch.Tensor, lengths: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """``inputs`` [batch, units, length] to what is passed on, of the same shape, and the memory."""
        gates, after = self.gated.read(inputs, memory, lengths)
        new, share = gates.chunk(2, dim=1)
        return self.out(new.tanh() * share.sigmoid()), after

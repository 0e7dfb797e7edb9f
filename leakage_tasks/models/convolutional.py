"""Convolutional character language models as transformers models: The Secret Sharer's CNN and WaveNet.

Their state, passed as ``past_key_values``, holds the last (kernel − 1)·dilation inputs of each convolution, with shape
[batch, features, (kernel − 1)·dilation].
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from leakage_tasks.models.stateful import StatefulCausalLM, StatefulConfig
from leakage_tasks.models.states import State


class CausalConv(nn.Conv1d):
    """A causal convolution: each position depends on itself and earlier positions. The text is preceded by zeros."""

    def __init__(self, features: int, out: int, width: int, dilation: int = 1) -> None:
        """Create a convolution over ``width`` positions at a distance of ``dilation``."""
        super().__init__(features, out, width, dilation=dilation)
        self.held = (width - 1) * dilation
        """Number of previous positions that the state holds."""

    def empty(self, inputs: Tensor) -> Tensor:
        """Return the initial memory [batch, features, held] for the batch size and dtype of ``inputs``."""
        return inputs.new_zeros(len(inputs), self.in_channels, self.held)

    def read(self, inputs: Tensor, memory: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """Continue from ``memory`` with ``inputs`` [batch, features, length].

        Returns the outputs [batch, out, length] and the new memory: after the whole input or, if ``lengths`` [batch] is
        given, after this number of positions of each row.
        """
        whole = torch.cat([memory, inputs], dim=2)
        if lengths is None:
            return self(whole), whole[..., inputs.shape[2] :]
        positions = lengths[:, None, None] + torch.arange(self.held, device=whole.device)
        return self(whole), whole.gather(2, positions.expand(-1, whole.shape[1], -1))


class ConvolutionalCausalLM(StatefulCausalLM):
    """A model whose state consists of the memories of its causal convolutions, in the order of the layers."""

    def empty(self, embedded: Tensor) -> State:
        """Return zeros."""
        return tuple(module.empty(embedded) for module in self.modules() if isinstance(module, CausalConv))


class CharCNNConfig(StatefulConfig):
    """Sizes of a :class:`CharCNNForCausalLM`; ``kernel_size`` is the number of characters in a convolution.

    The paper states only layers and units. With a kernel of 10 characters all three of its networks have 620,000
    parameters for embedding sizes of 131 to 136 (50 output characters); with other widths the sizes disagree.
    """

    model_type = "char_cnn"

    def __init__(self, *sizes: Any, kernel_size: int = 10, **kwargs: Any) -> None:
        self.kernel_size = kernel_size
        super().__init__(*sizes, **kwargs)


class CharCNNForCausalLM(ConvolutionalCausalLM):
    """A stack of causal convolutions with ReLU (The Secret Sharer, Table 1, "CNN")."""

    config_class = CharCNNConfig

    def __init__(self, config: CharCNNConfig) -> None:
        super().__init__(config)
        features = [config.embedding_size, *[config.hidden_size] * config.num_hidden_layers]
        self.convolutions = nn.ModuleList(
            CausalConv(before, after, config.kernel_size)
            for before, after in zip(features[:-1], features[1:], strict=True)
        )
        self.head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def read(self, embedded: Tensor, state: State | None, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Compute hidden states like :meth:`StatefulCausalLM.read`."""
        hidden, after = embedded.transpose(1, 2), list[Tensor]()
        for convolution, memory in zip(self.convolutions, state or self.empty(embedded), strict=True):
            hidden = self.dropout(hidden) if after else hidden
            hidden, memory = convolution.read(hidden, memory, lengths)  # type: ignore[operator]
            hidden = hidden.relu()
            after.append(memory)
        return hidden.transpose(1, 2), tuple(after)


class CharWaveNetConfig(StatefulConfig):
    """Sizes of a :class:`CharWaveNetForCausalLM`.

    ``kernel_size`` is the width of all convolutions, including the first; layer i (from 1) has dilation
    ``dilation_base``^i. The layers together use every position if the base is at most the kernel size.
    """

    model_type = "char_wavenet"

    def __init__(self, *sizes: Any, kernel_size: int = 3, dilation_base: int = 3, **kwargs: Any) -> None:
        self.kernel_size = kernel_size
        self.dilation_base = dilation_base
        super().__init__(*sizes, **kwargs)

    @property
    def receptive_field(self) -> int:
        """Number of characters that a prediction depends on."""
        return 1 + (self.kernel_size - 1) * sum(self.dilation_base**n for n in range(self.num_hidden_layers + 1))


class CharWaveNetForCausalLM(ConvolutionalCausalLM):
    """WaveNet: a causal convolution, gated dilated convolutions with skip connections, two 1×1 convolutions.

    This is The Secret Sharer's "WaveNet" in Table 1. As in Figure 4 of the WaveNet paper, each layer has one 1×1
    convolution for both the residual and the skip connection.
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

    def read(self, embedded: Tensor, state: State | None, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Compute hidden states like :meth:`StatefulCausalLM.read`."""
        before = state or self.empty(embedded)
        hidden, memory = self.first.read(embedded.transpose(1, 2), before[0], lengths)
        after, skipped = [memory], torch.zeros_like(hidden)
        for layer, held in zip(self.layers, before[1:], strict=True):
            passed, memory = layer(hidden, held, lengths)
            passed = self.dropout(passed)
            hidden, skipped = hidden + passed, skipped + passed
            after.append(memory)
        return self.mix(skipped.relu().transpose(1, 2)).relu(), tuple(after)


class _Layer(nn.Module):
    """A gated dilated convolution (tanh times sigmoid), then a 1×1 convolution."""

    def __init__(self, units: int, width: int, dilation: int) -> None:
        super().__init__()
        self.gated = CausalConv(units, 2 * units, width, dilation)
        self.out = nn.Conv1d(units, units, 1)

    def forward(self, inputs: Tensor, memory: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the layer's output for ``inputs``, both [batch, units, length], and the new memory."""
        gates, after = self.gated.read(inputs, memory, lengths)
        new, share = gates.chunk(2, dim=1)
        return self.out(new.tanh() * share.sigmoid()), after

"""A convolutional language model over characters as a transformers model: embedding, causal convolutions, linear.

Its state, in ``past_key_values``, is the last (kernel − 1) inputs of each layer, [batch, features, kernel − 1].
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from leakage_tasks.models.convolution import CausalConv
from leakage_tasks.models.stateful import State, StatefulCausalLM, StatefulConfig


class CharCNNConfig(StatefulConfig):
    """Sizes of a :class:`CharCNNForCausalLM`; ``kernel_size`` is the characters each convolution sees.

    The paper gives layers and units. With 10 characters all three of its networks come to 620,000 parameters on an
    embedding of nearly one size, 131 to 136 (50 output characters); no other width makes the three agree.
    """

    model_type = "char_cnn"

    def __init__(self, *sizes: Any, kernel_size: int = 10, **kwargs: Any) -> None:
        self.kernel_size = kernel_size
        super().__init__(*sizes, **kwargs)


class CharCNNForCausalLM(StatefulCausalLM):
    """A stack of causal convolutions with rectifiers (The Secret Sharer, Table 1, "CNN")."""

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

    def empty(self, embedded: torch.Tensor) -> State:
        """Zeros."""
        return tuple(convolution.empty(embedded) for convolution in self.convolutions)  # type: ignore[operator]

    def read(
        self, embedded: torch.Tensor, state: State | None, lengths: torch.Tensor | None
    ) -> tuple[torch.Tensor, State]:
        """See :meth:`StatefulCausalLM.read`."""
        hidden, after = embedded.transpose(1, 2), list[torch.Tensor]()
        for convolution, memory in zip(self.convolutions, state or self.empty(embedded), strict=True):
            hidden = self.dropout(hidden) if after else hidden
            hidden, memory = convolution.read(hidden, memory, lengths)  # type: ignore[operator]
            hidden = hidden.relu()
            after.append(memory)
        return hidden.transpose(1, 2), tuple(after)

"""The Secret Sharer's character LSTM and GRU as transformers models: embedding, recurrent layers, linear layer.

The state, passed as ``past_key_values``, is PyTorch's state with the batch first: (h, c) for an LSTM, (h,) for a GRU,
each tensor with shape [batch, layers, hidden].
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from leakage_tasks.models.kernels import kernels_for
from leakage_tasks.models.stateful import StatefulCausalLM, StatefulConfig
from leakage_tasks.models.states import LayersFirst, State


class CharLSTMConfig(StatefulConfig):
    """Sizes of a :class:`CharLSTMForCausalLM`.

    The 2 layers of 200 units are the paper's. With the embedding size of 128 the model has 585,600 + 329·V parameters
    for a vocabulary of V: 620,145 for the 105 entries of the demo's text.
    """

    model_type = "char_lstm"

    def __init__(self, *sizes: Any, **kwargs: Any) -> None:
        # Without this method transformers would generate an __init__ that ignores the default sizes.
        super().__init__(*sizes, **kwargs)


class CharGRUConfig(StatefulConfig):
    """Sizes of a :class:`CharGRUForCausalLM`."""

    model_type = "char_gru"

    def __init__(self, *sizes: Any, **kwargs: Any) -> None:
        # See CharLSTMConfig.__init__.
        super().__init__(*sizes, **kwargs)


class RecurrentCausalLM(StatefulCausalLM):
    """A causal language model with an embedding, recurrent layers and a linear layer."""

    reads_layers_first = True
    kind: type[nn.LSTM | nn.GRU]
    """PyTorch's class of the layers. Its name in lower case is the name of the submodule."""

    def __init__(self, config: StatefulConfig) -> None:
        super().__init__(config)
        units, layers = config.hidden_size, config.num_hidden_layers
        # PyTorch applies dropout only between layers and warns if there is a single layer.
        dropout = config.dropout if layers > 1 else 0.0
        made = self.kind(config.embedding_size, units, layers, batch_first=True, dropout=dropout)
        self.add_module(self.kind.__name__.lower(), made)
        self.head = nn.Linear(units, config.vocab_size)
        self.post_init()

    def empty(self, embedded: Tensor) -> State:
        """Return zeros."""
        size = (embedded.shape[0], self.config.num_hidden_layers, self.config.hidden_size)
        return (embedded.new_zeros(size),) * (2 if self.kind is nn.LSTM else 1)

    def read(self, embedded: Tensor, state: State | None, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Compute hidden states like :meth:`StatefulCausalLM.read`."""
        layers: nn.Module = getattr(self, self.kind.__name__.lower())
        fast = isinstance(state, LayersFirst)
        before = None if state is None else tuple(state) if fast else _swap(state)
        inputs: Any = embedded
        if lengths is not None:
            inputs = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        with kernels_for(embedded):
            hidden, after = layers(inputs, before[0] if before is not None and len(before) == 1 else before)
        if lengths is not None:
            hidden, _ = pad_packed_sequence(hidden, batch_first=True, total_length=embedded.shape[1])
        after = (after,) if isinstance(after, Tensor) else after
        return hidden, LayersFirst(after) if fast else _swap(after)


class CharLSTMForCausalLM(RecurrentCausalLM):
    """A character language model (The Secret Sharer, Section 2 and Table 1, "LSTM 2×200")."""

    config_class = CharLSTMConfig
    kind = nn.LSTM
    lstm: nn.LSTM


class CharGRUForCausalLM(RecurrentCausalLM):
    """A character language model (The Secret Sharer, Table 1, "GRU"; Cho et al. 2014)."""

    config_class = CharGRUConfig
    kind = nn.GRU


def _swap(state: State) -> State:
    """Convert between [batch, layers, hidden] and PyTorch's [layers, batch, hidden]."""
    return tuple(part.transpose(0, 1).contiguous() for part in state)

"""The character LSTM of The Secret Sharer as a transformers model: embedding, two LSTM layers, linear.

Its state, in ``past_key_values``, is the pair (h, c), each of shape [batch, layers, hidden].
"""

from __future__ import annotations

from typing import Any

from torch import nn

from leakage_tasks.models.recurrent import RecurrentCausalLM, sizes_of
from leakage_tasks.models.stateful import StatefulConfig


class CharLSTMConfig(StatefulConfig):
    """Sizes of a :class:`CharLSTMForCausalLM`.

    The LSTM's 2 layers of 200 units are the paper's. The embedding of 128 makes the whole
    585,600 + 329·V parameters for a vocabulary of V: 620,145 at the 105 entries of the demo's text.
    """

    model_type = "char_lstm"

    def __init__(self, *sizes: Any, **kwargs: Any) -> None:
        # One without would be given one by transformers, which forgets the sizes' defaults.
        super().__init__(*sizes, **kwargs)


class CharLSTMForCausalLM(RecurrentCausalLM):
    """A recurrent language model over characters (The Secret Sharer, Section 2 and Table 1, "LSTM 2×200")."""

    config_class = CharLSTMConfig
    parts = 2

    def __init__(self, config: CharLSTMConfig) -> None:
        super().__init__(config)
        self.lstm = nn.LSTM(**sizes_of(config))
        self.head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def layers(self) -> nn.Module:
        """The LSTM."""
        return self.lstm

"""The character GRU of The Secret Sharer as a transformers model: embedding, GRU layers, linear.

Its state, in ``past_key_values``, is the one tensor h of shape [batch, layers, hidden].
"""

from __future__ import annotations

from typing import Any

from torch import nn

from leakage_tasks.models.recurrent import RecurrentCausalLM, sizes_of
from leakage_tasks.models.stateful import StatefulConfig


class CharGRUConfig(StatefulConfig):
    """Sizes of a :class:`CharGRUForCausalLM`."""

    model_type = "char_gru"

    def __init__(self, *sizes: Any, **kwargs: Any) -> None:
        # One without would be given one by transformers, which forgets the sizes' defaults.
        super().__init__(*sizes, **kwargs)


class CharGRUForCausalLM(RecurrentCausalLM):
    """A recurrent language model over characters (The Secret Sharer, Table 1, "GRU"; Cho et al. 2014)."""

    config_class = CharGRUConfig
    parts = 1

    def __init__(self, config: CharGRUConfig) -> None:
        super().__init__(config)
        self.gru = nn.GRU(**sizes_of(config))
        self.head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def layers(self) -> nn.Module:
        """The GRU."""
        return self.gru

"""The character LSTM of The Secret Sharer as a transformers model: embedding, two LSTM layers, linear.

Its recurrent state travels as ``past_key_values``, a pair (h, c) with the batch first, so that whoever
extends partial texts can pick rows of it as of any tensor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

State = tuple[torch.Tensor, torch.Tensor]
"""(h, c), each of shape [batch, layers, hidden]."""


class CharLSTMConfig(PretrainedConfig):
    """Sizes of a :class:`CharLSTMForCausalLM`.

    The LSTM's 2 layers of 200 units are the paper's. The embedding of 128 makes the whole
    585,600 + 329·V parameters for a vocabulary of V: 620,145 at the 105 entries of the demo's text.
    ``max_position_embeddings`` limits nothing in the model; it tells others how long a text to send.
    """

    model_type = "char_lstm"

    def __init__(
        self,
        vocab_size: int = 105,
        embedding_size: int = 128,
        hidden_size: int = 200,
        num_hidden_layers: int = 2,
        max_position_embeddings: int = 2048,
        use_cache: bool = True,
        **kwargs: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.max_position_embeddings = max_position_embeddings
        self.use_cache = use_cache
        super().__init__(**kwargs)


class CharLSTMForCausalLM(PreTrainedModel, GenerationMixin):
    """A recurrent language model over characters (The Secret Sharer, Section 2 and Table 1, "LSTM 2×200")."""

    config_class = CharLSTMConfig
    main_input_name = "input_ids"

    def __init__(self, config: CharLSTMConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size)
        self.lstm = nn.LSTM(config.embedding_size, config.hidden_size, config.num_hidden_layers, batch_first=True)
        self.head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: State | None = None,
        use_cache: bool | None = None,
        labels: torch.Tensor | None = None,
        return_dict: bool | None = None,
    ) -> CausalLMOutputWithPast | tuple[Any, ...]:
        """Read ``input_ids`` [batch, length], on from ``past_key_values`` where given.

        ``attention_mask`` [batch, length or more; its last columns count] marks with 0 the places to pass
        over: they leave the state as it is and their logits mean nothing. ``labels`` [batch, length] are the
        input ids themselves (shifted here) with -100 where no loss is wanted. Returns logits
        [batch, length, vocabulary], with ``use_cache`` the state, with ``labels`` the mean loss in nats.
        """
        mask = None if attention_mask is None else attention_mask[:, -input_ids.shape[1] :].bool()
        hidden, state = self._read(self.embedding(input_ids), past_key_values, mask)
        logits = self.head(hidden)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        keep = self.config.use_cache if use_cache is None else use_cache
        output = CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=state if keep else None)  # type: ignore[arg-type]
        return output.to_tuple() if return_dict is False else output

    def _read(
        self, embedded: torch.Tensor, state: State | None, mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, State]:
        layers_first = None if state is None else _swap(state)
        if mask is None or bool(mask.all()):
            hidden, after = self.lstm(embedded, layers_first)
            return hidden, _swap(after)
        before = self._zeros(embedded) if state is None else state
        # What counts moves to the front of its row, in order, so that the LSTM sees nothing else.
        order = (~mask).long().argsort(dim=1, stable=True).unsqueeze(-1)
        lengths = mask.sum(dim=1)
        packed = pack_padded_sequence(
            embedded.gather(1, order.expand_as(embedded)),
            lengths.clamp(min=1).cpu(),
            batch_first=True,
            enforce_sorted=False,
        )
        packed_hidden, after = self.lstm(packed, _swap(before))
        compact, _ = pad_packed_sequence(packed_hidden, batch_first=True, total_length=mask.shape[1])
        hidden = torch.zeros_like(compact).scatter(1, order.expand_as(compact), compact)
        read = (lengths > 0)[:, None, None]
        h, c = _swap(after)
        return hidden, (torch.where(read, h, before[0]), torch.where(read, c, before[1]))

    def _zeros(self, embedded: torch.Tensor) -> State:
        empty = embedded.new_zeros(embedded.shape[0], self.config.num_hidden_layers, self.config.hidden_size)
        return empty, empty

    def _init_weights(self, module: nn.Module) -> None:
        # PyTorch's own initial values: the published behaviour of this network was got with such, and
        # transformers' default of N(0, 0.02) makes it learn markedly slower.
        if isinstance(module, nn.Embedding | nn.LSTM | nn.Linear):
            module.reset_parameters()

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        # generate() would otherwise hand over an attention cache; without it, it starts from None and
        # passes on whatever state forward returned.
        return False

    @staticmethod
    def _reorder_cache(past_key_values: State, beam_idx: torch.Tensor) -> State:
        h, c = past_key_values
        return h.index_select(0, beam_idx), c.index_select(0, beam_idx)

    def get_input_embeddings(self) -> nn.Module:
        """The character embedding."""
        return self.embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the character embedding."""
        self.embedding = value  # type: ignore[assignment]

    def get_output_embeddings(self) -> nn.Module:
        """The linear layer over the vocabulary (never tied to the embedding, whose size differs)."""
        return self.head


def _swap(state: State) -> State:
    """Between [batch, layers, hidden] and PyTorch's [layers, batch, hidden]."""
    h, c = state
    return h.transpose(0, 1).contiguous(), c.transpose(0, 1).contiguous()

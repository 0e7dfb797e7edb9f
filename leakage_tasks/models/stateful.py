"""What the lab's language models share: an embedding, a body that reads on from a state, a linear layer over tokens.

The state travels as ``past_key_values``, a tuple of tensors with the batch first, so that whoever extends partial
texts can pick rows of it as of any tensor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

State = tuple[Tensor, ...]
"""What a model remembers of the text so far, each tensor of shape [batch, …]."""


class StatefulConfig(PretrainedConfig):
    """Sizes of a :class:`StatefulCausalLM`.

    ``dropout`` acts in training, on what each layer passes on, the last one's output included.
    ``max_position_embeddings`` limits nothing in the model; it tells others how long a text to send.
    """

    def __init__(
        self,
        vocab_size: int = 105,
        embedding_size: int = 128,
        hidden_size: int = 200,
        num_hidden_layers: int = 2,
        max_position_embeddings: int = 2048,
        use_cache: bool = True,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.max_position_embeddings = max_position_embeddings
        self.use_cache = use_cache
        self.dropout = dropout
        super().__init__(**kwargs)


class StatefulCausalLM(PreTrainedModel, GenerationMixin):
    """A language model whose body is :meth:`read` by a subclass, which also makes ``head`` and calls ``post_init``."""

    config_class = StatefulConfig
    main_input_name = "input_ids"
    _input_embed_layer = "embedding"
    head: nn.Linear

    def __init__(self, config: StatefulConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size)
        # A dropout of nothing would still draw from torch's random numbers.
        self.dropout = nn.Dropout(config.dropout) if config.dropout else nn.Identity()

    def empty(self, embedded: Tensor) -> State:
        """The state before a text, for each row of ``embedded`` [batch, length, features]."""
        raise NotImplementedError

    def read(self, embedded: Tensor, state: State | None, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Read ``embedded`` [batch, length, features] on from ``state``: hidden [batch, length, hidden] and the state.

        With ``lengths`` [batch] the state is that after so many places of each row, at least one of them; what is
        hidden after those means nothing.
        """
        raise NotImplementedError

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        past_key_values: State | None = None,
        use_cache: bool | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> CausalLMOutputWithPast | tuple[Any, ...]:
        """Read ``input_ids`` [batch, length], on from ``past_key_values`` where given.

        ``inputs_embeds`` [batch, length, embedding] may stand in their place. ``attention_mask`` [batch, length or
        more; its last columns count] marks with 0 the places to pass over: they leave the state as it is and their
        logits mean nothing. ``labels`` [batch, length] are the input ids themselves (shifted here) with -100 where no
        loss is wanted. Returns logits [batch, length, vocabulary], with ``use_cache`` the state, with ``labels`` the
        mean loss in nats.
        """
        embedded = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        mask = None if attention_mask is None else attention_mask[:, -embedded.shape[1] :].bool()
        hidden, state = self._read_unmasked(embedded, past_key_values, mask)
        logits = self.head(self.dropout(hidden))
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        keep = self.config.use_cache if use_cache is None else use_cache
        output = CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=state if keep else None)  # type: ignore[arg-type]
        return output.to_tuple() if return_dict is False else output

    def _read_unmasked(self, embedded: Tensor, state: State | None, mask: Tensor | None) -> tuple[Tensor, State]:
        if mask is None or bool(mask.all()):
            return self.read(embedded, state, None)
        before = self.empty(embedded) if state is None else state
        # What counts moves to the front of its row, in order, so that the model sees nothing else before it.
        order = (~mask).long().argsort(dim=1, stable=True).unsqueeze(-1)
        lengths = mask.sum(dim=1)
        compact, after = self.read(embedded.gather(1, order.expand_as(embedded)), before, lengths.clamp(min=1))
        hidden = torch.zeros_like(compact).scatter(1, order.expand_as(compact), compact)
        read = (lengths > 0)[:, None, None]
        return hidden, tuple(torch.where(read, new, old) for new, old in zip(after, before, strict=True))

    def _init_weights(self, module: nn.Module) -> None:
        # PyTorch's own initial values: the published behaviour of these networks was got with such, and
        # transformers' default of N(0, 0.02) makes an LSTM learn markedly slower.
        if isinstance(module, nn.Embedding | nn.RNNBase | nn.Linear | nn.Conv1d):
            module.reset_parameters()

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        # generate() would otherwise hand over an attention cache; without it, it starts from None and
        # passes on whatever state forward returned.
        return False

    @staticmethod
    def _reorder_cache(past_key_values: State, beam_idx: Tensor) -> State:
        return tuple(part.index_select(0, beam_idx) for part in past_key_values)

    def get_output_embeddings(self) -> nn.Module:
        """The linear layer over the vocabulary (never tied to the embedding, whose size differs)."""
        return self.head

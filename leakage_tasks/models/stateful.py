"""Base class of language models with a recurrent state: an embedding, a body with a state, a linear layer over tokens.

The state is passed as ``past_key_values``, a tuple of tensors with the batch first, so that callers can index its rows
when they continue texts.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from leakage_tasks.models.states import State


class StatefulConfig(PretrainedConfig):
    """Sizes of a :class:`StatefulCausalLM`.

    ``dropout`` applies in training to the output of every layer, including the last. ``max_position_embeddings`` does
    not limit the model; other programs read it as the maximum length of a text.
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
    """Base class of language models with a state.

    Subclasses implement :meth:`empty` and :meth:`read`, create ``head`` and call ``post_init``.
    """

    config_class = StatefulConfig
    main_input_name = "input_ids"
    _input_embed_layer = "embedding"
    reads_layers_first = False
    head: nn.Linear

    def __init__(self, config: StatefulConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size)
        # nn.Dropout(0) would still consume random numbers.
        self.dropout = nn.Dropout(config.dropout) if config.dropout else nn.Identity()

    def empty(self, embedded: Tensor) -> State:
        """Return the initial state for the rows of ``embedded`` [batch, length, features]."""
        raise NotImplementedError

    def read(self, embedded: Tensor, state: State | None, lengths: Tensor | None) -> tuple[Tensor, State]:
        """Continue from ``state`` with ``embedded`` [batch, length, features].

        Returns the hidden states [batch, length, hidden] and the new state: after the whole input or, if ``lengths``
        [batch] is given, after this number of positions (at least 1) of each row. Hidden states beyond ``lengths`` are
        undefined.
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
        """Compute logits, and the loss if ``labels`` are given.

        Args:
            input_ids: Token ids [batch, length].
            attention_mask: [batch, length or more]; the last columns count. Positions with 0 are skipped: they do not
                change the state, and their logits are undefined.
            past_key_values: The state to continue from.
            use_cache: Return the state.
            labels: [batch, length], equal to ``input_ids``, with -100 at positions without a loss. This method shifts
                them.
            return_dict: If false, return a tuple.
            inputs_embeds: [batch, length, embedding], instead of ``input_ids``.

        Returns:
            Logits [batch, length, vocabulary], the state, and the mean loss in nats.
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
        # Move unmasked positions to the front of each row, in order, so that skipped positions do not affect them.
        order = (~mask).long().argsort(dim=1, stable=True).unsqueeze(-1)
        lengths = mask.sum(dim=1)
        compact, after = self.read(embedded.gather(1, order.expand_as(embedded)), before, lengths.clamp(min=1))
        hidden = torch.zeros_like(compact).scatter(1, order.expand_as(compact), compact)
        read = (lengths > 0)[:, None, None]
        return hidden, tuple(torch.where(read, new, old) for new, old in zip(after, before, strict=True))

    def _init_weights(self, module: nn.Module) -> None:
        # PyTorch's default initialization, as in the published results. With transformers' default of N(0, 0.02) an
        # LSTM learns markedly slower.
        if isinstance(module, nn.Embedding | nn.RNNBase | nn.Linear | nn.Conv1d):
            module.reset_parameters()

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        # Otherwise generate() would pass an attention cache. Now it starts with None and passes the state that forward
        # returned.
        return False

    @staticmethod
    def _reorder_cache(past_key_values: State, beam_idx: Tensor) -> State:
        return tuple(part.index_select(0, beam_idx) for part in past_key_values)

    def get_output_embeddings(self) -> nn.Module:
        """Return the linear layer over the vocabulary, which is not tied to the embedding: their sizes differ."""
        return self.head
